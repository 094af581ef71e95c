"""A recording: what host code did with inputs of one form."""

from dataclasses import dataclass
from typing import Any

from warpsmith.evaluator.config import RecordingWay
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.recordings.history import Past, whole_pattern
from warpsmith.evaluator.reference.form import Form


@dataclass(frozen=True)
class Recording:
    """What host code did with inputs of one form.

    Attributes:
        form: the form of the inputs, with plain arguments.
        events: allocations, fills, copies and launches, in order; see `recordings/recorder.py`.
        outputs: which tensors of the recording are the outputs, then the module's buffers.
        launches: what to compile for each launch, in order.
        way: how it was recorded.
        remark: the configurations of autotuned kernels, for messages; empty if there are none.
        past: the inputs of earlier calls whose memory this call uses; the events of those calls come first.
    """

    form: Form
    events: list[Any]
    outputs: list[Any]
    launches: list[dict[str, Any]]
    way: RecordingWay
    remark: str = ""
    past: tuple[Past, ...] = ()

    @property
    def allocated_bytes(self) -> int:
        """Bytes of memory that host code allocated: outputs and what it computes in between."""
        return sum(event[2] for event in self.events if event[:1] == ["alloc"])

    @property
    def pattern(self) -> bytes:
        """Equal for recordings that do the same on the same inputs after the same calls, in any process."""
        past = [one.form.tree for one in self.past]
        return codec.encode([past, whole_pattern(self.form, self.events, self.outputs)])

    @property
    def has_constants(self) -> bool:
        """Whether it includes the values of tensors made before the call."""
        return any(event[:1] == ["const"] and event[2:] != [b""] for event in self.events)
