"""Detached: host code runs in a worker without a device, on zeros, so that no values can enter a recording."""

from typing import TYPE_CHECKING, Any, ClassVar, Final

from warpsmith.evaluator import _native
from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.devices.host_kind import HOST
from warpsmith.evaluator.devices.kinds import Role
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.ipc.messages import Kind, Message
from warpsmith.evaluator.judge.candidate import CandidateUnderTest
from warpsmith.evaluator.judge.host_execution.base import HostExecution, NeedsDeviceError
from warpsmith.evaluator.judge.host_execution.build_requests import BuildRequests
from warpsmith.evaluator.judge.host_execution.recording_limits import constants_of
from warpsmith.evaluator.judge.launches import Launches
from warpsmith.evaluator.processes.failure_attribution import CandidateFailedError, SuspectError
from warpsmith.evaluator.recordings.recording import Recording
from warpsmith.evaluator.reference.form import Form
from warpsmith.evaluator.reference.session import Answer, ReferenceSession
from warpsmith.evaluator.workers import gpu_stand_in

if TYPE_CHECKING:
    from warpsmith.evaluator.devices.memory import Shared

DETACHED_S: Final = 5.0
"""Time limit of one request to detached host code, after which it is tried on the device."""
DETACHED_STATE_BYTES: Final = 64 << 20
"""Largest size of parameters and buffers: a constructor that draws more on the host takes too long."""


class DetachedExecution(HostExecution):
    """Host code in a worker without a device, on zeros in host memory.

    A recording that includes constants is made twice, in two processes and from two sets of parameters. A constant that
    differs depends on parameters or on something else that changes, and is rejected.
    """

    way = "detached"
    role: ClassVar[Role] = "host"
    calls: ClassVar[int] = 5
    sees_contents = False

    def __init__(self, session: ReferenceSession, candidate: CandidateUnderTest, launches: Launches) -> None:
        super().__init__(session, candidate, launches)
        self._host = HOST.open()
        self._builds = BuildRequests(self._launches, self._conversation)

    def record(self, answer: Answer, room: Form) -> list[Recording]:
        """See `HostExecution`; constants are compared with those of a second process."""
        found = super().record(answer, room)
        if found[0].has_constants:
            self._check_constants(found[0], answer, room)
        return found

    def _check_constants(self, one: Recording, answer: Answer, room: Form) -> None:
        other = DetachedExecution(self.session, self._candidate, self._launches)
        try:
            other.load()
            _, two, _ = other._recorded(answer, room)
        finally:
            other.close()
        if codec.encode(constants_of(one)) != codec.encode(constants_of(two)):
            raise CandidateFailedError(
                "rejected",
                None,
                f"{self.lacks}forward uses tensors whose values the constructor derives from parameters or random "
                "numbers, which change after construction. Compute what depends on a parameter in forward, in a "
                "kernel.",
            )

    def load(self) -> codec.Fields:
        # Where host code is compiled too, its build takes longer than a large constructor, and is needed either way.
        leaves = self._can_change and not self.machine.language.builds_ahead
        if self.session.state.size > DETACHED_STATE_BYTES and leaves:
            raise NeedsDeviceError("the module is large")
        return super().load()

    @property
    def _can_change(self) -> bool:
        """Whether what is not recorded here can be recorded on the device."""
        return self.machine.runs_kernels

    def _recorded(self, answer: Answer, room: Form) -> tuple[bytes, Recording, int]:
        with self.machine.lease.released():
            return super()._recorded(answer, room)

    def _check_rules(self, done: codec.Fields, answer: Answer) -> None:
        if done.flag("host_memory") and not self.machine.device.kind.interprets and self._can_change:
            raise NeedsDeviceError("forward makes memory of the host")
        super()._check_rules(done, answer)

    def _created(self, name: str, size: int) -> "Shared":
        return self._host.create(name, size)

    def _fill_state(self, arena: "Shared") -> None:
        """Copy the constructor's arguments, which never change; parameters and buffers stay zeros."""
        source = tensor_views.content(self.session.state_buffer)
        target = tensor_views.content(arena)
        for slot in codec.slots(codec.Fields(self.session.state.tree).value("init")):
            span = slice(slot.offset, slot.offset + slot.nbytes)
            target[span] = source[span].cpu()

    def _prepare_inputs(self) -> None:
        """Leave the session's inputs as they are: host code sees none."""

    def _fill_inputs(self, arena: "Shared") -> None:
        """Leave zeros: host code sees no values, and untouched pages take no memory."""

    def _arena(self, name: str, size: int) -> "tuple[Shared, bool]":
        try:
            return super()._arena(name, size)
        except _native.NativeError as error:
            raise NeedsDeviceError(f"the host has no room for its tensors: {error}") from error

    def _properties(self) -> dict[str, Any]:
        found = self.machine.device.properties()
        values = {name: getattr(found, name, None) for name in vars(gpu_stand_in.PROPERTIES)}
        return {name: value for name, value in values.items() if isinstance(value, int | str)}

    def _ask(self, kind: Kind, fields: dict[str, Any], fds: list[int], answer: Kind) -> Message:
        """Send a request; after any failure but that of a build host code is tried on the device."""
        on_build = self._builds.answer if self.machine.language.builds_ahead else None
        try:
            return self._conversation.ask(
                self.worker, kind, fields, fds, answer, on_launch=on_build, at_most_s=DETACHED_S
            )
        except (CandidateFailedError, SuspectError) as error:
            if self._builds.explains(error.failure):
                # It does not compile for a device either, so the device is not tried.
                raise
            raise NeedsDeviceError(str(error)) from error
