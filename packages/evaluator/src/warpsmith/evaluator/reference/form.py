"""Forms: what is known about tensors without their values, and where each lies in an arena."""

from dataclasses import dataclass

from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.ipc.tensor_slots import TensorSlot, pack


@dataclass(frozen=True)
class Form:
    """The form of an input set, of a state or of results: a tree of slots, placed in an arena of `size` bytes.

    It holds shapes, dtypes, strides and plain arguments, and no values of tensors.
    """

    tree: codec.Value
    size: int

    @property
    def slots(self) -> list[TensorSlot]:
        return list(codec.slots(self.tree))

    @staticmethod
    def of(tree: codec.Value, max_bytes: int) -> "Form":
        """Check and place every slot of `tree`; LayoutError if one is invalid or their total exceeds `max_bytes`."""
        placed, size = pack(codec.slots(tree), max_bytes)
        return Form(codec.replace_slots(tree, iter(placed)), size)
