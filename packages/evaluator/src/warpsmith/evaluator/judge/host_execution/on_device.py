"""On-device: host code runs where kernels do (on a CPU interpreted), on inputs and parameters that no trial uses.

It is for host code that reads a content, that times its kernels, or that asks for facts of a compiled kernel. What a
recording knows of those is wrong in every trial.
"""

import time
from typing import TYPE_CHECKING, Any, ClassVar, Final

import torch

from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.devices.base import Device
from warpsmith.evaluator.devices.kinds import Role
from warpsmith.evaluator.errors import BadProblemError, LayoutError, WireError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.ipc.messages import Kind, Message
from warpsmith.evaluator.judge.candidate import CandidateUnderTest
from warpsmith.evaluator.judge.host_execution.base import HostExecution
from warpsmith.evaluator.judge.host_execution.recording import MAX_LAUNCH_BYTES, MAX_LAUNCHES, Recording
from warpsmith.evaluator.judge.launches import Launches
from warpsmith.evaluator.processes.failure_attribution import CandidateFailedError, SuspectError
from warpsmith.evaluator.processes.pool import Worker
from warpsmith.evaluator.reference.session import Answer, Placed, ReferenceSession

if TYPE_CHECKING:
    from warpsmith.evaluator.devices.memory import Shared

FORM_ATTEMPTS: Final = 8
"""How often inputs are drawn until they have the form that is asked for."""
MOST_KEPT_BYTES: Final = 64 << 20
"""Of inputs that host code saw: up to this size the next ones are like them at both ends."""


class OnDeviceExecution(HostExecution):
    """Host code where kernels run, on inputs and parameters that no trial uses."""

    way = "on_device"
    role: ClassVar[Role] = "candidate"
    calls: ClassVar[int] = 2
    sees_contents = True

    def __init__(self, session: ReferenceSession, candidate: CandidateUnderTest, launches: Launches) -> None:
        super().__init__(session, candidate, launches)
        self._reports = 0
        self._last: torch.Tensor | None = None

    def load(self) -> codec.Fields:
        with self.machine.lease.shared():
            return super().load()

    def _arena_device(self) -> Device:
        return self.machine.device

    def _fill_state(self, arena: "Shared") -> None:
        tensor_views.content(arena).copy_(self.session.constructed_state)

    def _fill_inputs(self, arena: "Shared") -> None:
        tensor_views.content(arena).copy_(tensor_views.content(self.session.inputs_buffer))

    def _prepare_inputs(self) -> None:
        """Make other inputs of the form of those in the session's arena, where they then lie."""
        session, form, made_with = self.session, self.session.inputs, self.session.made_with
        for _ in range(FORM_ATTEMPTS):
            session.make_inputs(next(self._seeds), made_with.sizes)
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

    def depends_on_content(self, room: Placed) -> bool:
        """As of `HostExecution`: host code is called once more, on the content of a trial that has failed."""
        tensor_views.content(self._arena("state", self.session.state.size)[0]).copy_(
            tensor_views.content(self.session.state_buffer)
        )
        try:
            return self._read(self._call(room), room)[1] not in self._patterns
        except (CandidateFailedError, SuspectError, WireError, LayoutError):
            return False

    def record(self, answer: Answer, room: Placed) -> list[Recording]:
        """As of `HostExecution`. The session's arena holds the inputs again that it held before; answer them anew."""
        made_with = self.session.made_with
        try:
            return super().record(answer, room)
        finally:
            self.session.make_again(made_with)

    def _check_unreplayed_is_allowed(self) -> None:
        if not self.config.allow_unreplayed:
            raise BadProblemError(
                "get_inputs() gives other shapes or dtypes at each call, so that a candidate whose host code reads a "
                "content cannot be replayed on inputs that it never saw.",
                "Fix the shapes of the problem's inputs, or set allow_unreplayed to have such verdicts flagged "
                "`not_replayed`.",
            )
        self.evidence.flags.add("not_replayed")

    def _ask(self, kind: Kind, fields: dict[str, Any], fds: list[int], answer: Kind) -> Message:
        return self._conversation.ask(self.worker, kind, fields, fds, answer, on_launch=self._on_launch)

    def _on_launch(self, message: Message, worker: Worker) -> None:
        """Keep a reported launch; on a device, compile it and hand the code over, not on the candidate's time."""
        self._reports += 1
        launch = {
            "kernel": message.fields.text("kernel", 200),
            "arguments": message.fields.mapping("arguments"),
            "options": message.fields.mapping("options"),
        }
        if self._reports > MAX_LAUNCHES or len(codec.encode([[launch]])) > MAX_LAUNCH_BYTES:
            raise WireError(f"a launch after {self._reports - 1} others is more than anybody needs")
        began = time.monotonic()
        found = self._launches.reported(launch)
        if found is not None:
            self._conversation.extend(time.monotonic() - began)
            told = {"ok": found.ok, "message": found.message, "category": found.category}
            binary = found.binaries[0] if found.ok else {}
            worker.send(Kind.KERNEL, told | {"binary": binary}, [], self._conversation.left())


def _keep_ends(inputs: torch.Tensor, before: torch.Tensor, form: Placed) -> None:
    """Put back what was there before but for the middle of each tensor: what is known by a few numbers is known again.

    What reads other values in place of these is recorded likewise, for no trial is on either.
    """
    for slot in form.slots:
        quarter = slot.nbytes // 4
        for start, stop in ((0, quarter), (slot.nbytes - quarter, slot.nbytes)):
            span = slice(slot.offset + start, slot.offset + stop)
            inputs[span] = before[span]
