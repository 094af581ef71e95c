"""On-device: host code runs where kernels run (interpreted on a CPU), on inputs and parameters that no trial uses.

It serves host code that reads values of tensors, times its kernels, or queries a compiled kernel. Values that enter a
recording are wrong in every trial.
"""

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

import torch

from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.devices.kinds import Role
from warpsmith.evaluator.errors import BadProblemError, WireError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.ipc.messages import Kind, Message
from warpsmith.evaluator.judge.candidate import CandidateUnderTest
from warpsmith.evaluator.judge.compiling.service import Compilation
from warpsmith.evaluator.judge.host_execution.acts import TURNS, Act, Finding, is_settled
from warpsmith.evaluator.judge.host_execution.base import HostExecution
from warpsmith.evaluator.judge.host_execution.build_requests import BuildRequests
from warpsmith.evaluator.judge.host_execution.recording_limits import (
    MAX_LAUNCH_BYTES,
    MAX_LAUNCHES,
    claims_of_a_recording,
)
from warpsmith.evaluator.judge.launches import Launches
from warpsmith.evaluator.processes.failure_attribution import CandidateFailedError
from warpsmith.evaluator.processes.worker import Worker
from warpsmith.evaluator.recordings.recording import Recording
from warpsmith.evaluator.reference.form import Form
from warpsmith.evaluator.reference.session import Answer, MadeWith, ReferenceSession

if TYPE_CHECKING:
    from warpsmith.evaluator.devices.memory import Shared

FORM_ATTEMPTS: Final = 8
"""How many times inputs are drawn to get a given form."""
MOST_KEPT_BYTES: Final = 64 << 20
"""Up to this size, inputs shown to host code keep both ends of the inputs shown before."""


class OnDeviceExecution(HostExecution):
    """Host code on the device, on inputs and parameters that no trial uses."""

    way = "on_device"
    role: ClassVar[Role] = "candidate"
    calls: ClassVar[int] = 2
    sees_contents = True

    def __init__(self, session: ReferenceSession, candidate: CandidateUnderTest, launches: Launches) -> None:
        super().__init__(session, candidate, launches)
        self._builds = BuildRequests(self._launches, self._conversation)
        self._reports = 0
        self._last: torch.Tensor | None = None

    def load(self) -> codec.Fields:
        with self.machine.lease.shared():
            return super().load()

    def _created(self, name: str, size: int) -> "Shared":
        with self.machine.driving():
            return self.machine.device.create(name, size)

    def _fill_state(self, arena: "Shared") -> None:
        tensor_views.content(arena).copy_(self.session.constructed_state)

    def _fill_inputs(self, arena: "Shared") -> None:
        tensor_views.content(arena).copy_(tensor_views.content(self.session.inputs_buffer))

    def _prepare_inputs(self) -> None:
        """Replace the inputs in the session's arena by others of the same form, which has the same plain numbers."""
        session, form, made_with = self.session, self.session.inputs, self.session.made_with
        for _ in range(FORM_ATTEMPTS):
            session.make_inputs(next(self._seeds), made_with.sizes, made_with.draws.with_tensors_as_made())
            if session.inputs == form:
                break
        else:
            self._check_unreplayed_is_allowed()
            session.make_again(made_with)
            return
        inputs = tensor_views.content(session.inputs_buffer)
        if form.size > MOST_KEPT_BYTES:
            return
        if self._last is not None and self._last.shape == inputs.shape:
            _keep_ends(inputs, self._last, form)
        self._last = inputs.clone()

    def try_content(self, answer: Answer, room: Form) -> Finding:
        """See `HostExecution`; host code is called on the values of a trial whose replay is over.

        What it keeps between calls can also change what it does, on these values and on others after them. So it is
        called on others next, and in turn until it is settled that contents change nothing.
        """
        made_with, seed = self.session.made_with, next(self._seeds)
        acts: list[Act] = []
        try:
            for on_trial in TURNS:
                acts.append(self._act(room, seed, made_with if on_trial else None))
                if is_settled(acts, self._known):
                    return Finding(unjudged=self._unjudged(acts, answer))
        except BadProblemError:
            # No other inputs of this form could be drawn, so nothing is shown.
            return Finding()
        finally:
            self._fill_state(self._arena("state", self.session.state.size)[0])
            self._make_again(made_with)
        return Finding(depends=True)

    def _act(self, room: Form, seed: int, trial: MadeWith | None) -> Act:
        """Return what a call does on the values of a trial, or on others.

        Raises:
            CandidateFailedError, SuspectError: the worker ended, or its time is up.
        """
        state, _ = self._arena("state", self.session.state.size)
        if trial is None:
            self._fill_state(state)
            self._prepare_inputs()
        else:
            tensor_views.content(state).copy_(tensor_views.content(self.session.state_buffer))
            self._make_again(trial)
        try:
            with claims_of_a_recording():
                done = self._call(room, as_with=seed)
                return Act.of(replace(self._read(done, room), checks=True), done)
        except CandidateFailedError as error:
            if not self.worker.alive or error.failure.status == "timeout":
                raise
            return Act.raised(error)

    def _unjudged(self, acts: list[Act], answer: Answer) -> tuple[Recording, ...]:
        """Return recordings of what no recording has.

        Raises:
            CandidateFailedError: a call failed, though not because of its content, or broke a rule.
        """
        found: list[Recording] = []
        for act in acts:
            if act.error is not None:
                raise act.error
            if act.whole in self._known.whole or act.call is None or act.done is None:
                continue
            if act.in_any_memory in self._known.in_any_memory:
                self._history.calls.append(act.call)
                self._known.add(act)
            else:
                self._check_rules(act.done, answer)
                found.append(self._recording_of(act.call, act.done, answer))
        return tuple(found)

    def _make_again(self, made_with: MadeWith) -> None:
        """Put an input set into the session's arena, unless it is there."""
        if self.session.made_with != made_with:
            self.session.make_again(made_with)

    def record(self, answer: Answer, room: Form) -> list[Recording]:
        """See `HostExecution`. The session's inputs are restored afterwards; the reference must answer them again."""
        made_with = self.session.made_with
        try:
            return super().record(answer, room)
        finally:
            self.session.make_again(made_with)

    def _check_unreplayed_is_allowed(self) -> None:
        if not self.config.allow_unreplayed:
            raise BadProblemError(
                "get_inputs() returns other shapes or dtypes at each call, so a candidate whose host code reads "
                "tensors cannot be replayed on inputs that it never saw.",
                "Fix the shapes of the problem's inputs, or set allow_unreplayed to accept such verdicts with the "
                "flag `not_replayed`.",
            )
        self.evidence.flags.add("not_replayed")

    def _ask(self, kind: Kind, fields: dict[str, Any], fds: list[int], answer: Kind) -> Message:
        return self._conversation.ask(self.worker, kind, fields, fds, answer, on_launch=self._on_request)

    def _on_request(self, message: Message, worker: Worker) -> None:
        if message.kind is Kind.BUILD and self.machine.language.builds_ahead:
            self._builds.answer(message, worker)
        else:
            self._on_launch(message, worker)

    def _on_launch(self, message: Message, worker: Worker) -> None:
        """Keep a reported launch; on a device, compile it and send the code. The candidate's time stops meanwhile."""
        if message.kind is not Kind.LAUNCH:
            raise WireError(f"{message.kind.name} was received; LAUNCH was expected.")
        self._reports += 1
        launch = {
            "kernel": message.fields.text("kernel", 200),
            "arguments": message.fields.mapping("arguments"),
            "options": message.fields.mapping("options"),
        } | self._language_of(message.fields)
        if self._reports > MAX_LAUNCHES or len(codec.encode([[launch]])) > MAX_LAUNCH_BYTES:
            raise WireError(f"launch {self._reports} exceeds the limits of a recording")
        began = time.monotonic()
        tried = message.fields.has("tried") and message.fields.flag("tried")
        found = self._launches.reported(launch, tried=tried)
        if tried and found is not None and not self._is_skipped(found):
            found = self._launches.reported(launch)
        if found is not None:
            self._conversation.extend(time.monotonic() - began)
            reply = {"ok": found.ok, "message": found.message, "category": found.category}
            binary = found.binaries[0] if found.ok else {}
            worker.send(Kind.KERNEL, reply | {"binary": binary}, [], self._conversation.left())

    def _language_of(self, fields: codec.Fields) -> dict[str, str]:
        """Return the entry that names a launch's language, where a candidate can use several.

        Raises:
            WireError: that language does not compile launch by launch.
        """
        parts = self.machine.language.parts
        if len(parts) == 1:
            return {}
        name = fields.text("language", 40)
        if name not in parts or parts[name].builds_ahead:
            raise WireError(f"The code of a launch in {name!r} was asked for; its builds are compiled already.")
        return {"language": name}

    def _is_skipped(self, found: Compilation) -> bool:
        """Whether the autotuner skips a configuration, or it compiles: the chosen one is launched again."""
        return found.ok or self.machine.language.autotuner_skips(found.category, found.message)


def _keep_ends(inputs: torch.Tensor, before: torch.Tensor, form: Form) -> None:
    """Restore the previous values except in the middle of each tensor.

    Host code that recognizes inputs by a few numbers at the ends then mistakes them for the same. Host code that reads
    other values gains nothing, since no trial uses any of them.
    """
    for slot in form.slots:
        quarter = slot.nbytes // 4
        for start, stop in ((0, quarter), (slot.nbytes - quarter, slot.nbytes)):
            span = slice(slot.offset + start, slot.offset + stop)
            inputs[span] = before[span]
