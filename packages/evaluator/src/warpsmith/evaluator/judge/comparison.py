"""Compares the outputs of a replay with the reference's."""

from dataclasses import replace
from typing import Final

import torch

from warpsmith.evaluator.correctness.compare import Expected, agrees, compare, passes_kernelbench, usual
from warpsmith.evaluator.devices import tensor_views
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.ipc.tensor_slots import TensorSlot
from warpsmith.evaluator.judge.evidence import Evidence
from warpsmith.evaluator.judge.recordings_by_form import Recordings
from warpsmith.evaluator.judge.replays import Delivered
from warpsmith.evaluator.recordings import outputs
from warpsmith.evaluator.reference.session import Answer, ReferenceSession

AFTER_FORWARD: Final = "Buffer {} after forward: "

Pairs = list[tuple[str, torch.Tensor, Expected]]
"""Name in messages, output of the replay, expected output."""


class Comparer:
    """Compares private copies of outputs with the expected answers."""

    def __init__(self, session: ReferenceSession, recordings: Recordings, evidence: Evidence) -> None:
        self._session = session
        self._recordings = recordings
        self._evidence = evidence
        self._usual: list[torch.Tensor | None] = []

    def learn_usual(self, answer: Answer) -> None:
        """Remember the usual magnitudes in the answer to plain inputs, for inputs that make all elements small."""
        self._usual = [usual(expected) for expected in answer.expected]

    def wrong(self, delivered: Delivered) -> str:
        """Return what is wrong, or an empty string; the evidence notes the size of the error."""
        reduction = self._session.reduction(delivered.answer)
        for name, got, expected in self._pairs(delivered):
            comparison = compare(got, expected, reduction)
            self._evidence.note(comparison)
            if not comparison.ok:
                return f"{name}{comparison.message}{self._as_before(name, got, expected.value)}"
        return self._left_out(delivered.answer)

    def wrong_when_timed(self, delivered: Delivered, reduction: float) -> str:
        """Return what is wrong with the output of a timed call, or an empty string.

        Args:
            delivered: the call's output.
            reduction: see `ReferenceSession.reduction`.
        """
        pairs = self._pairs(delivered)
        found = ((name, compare(got, expected, reduction)) for name, got, expected in pairs)
        return next((f"{name}{comparison.message}" for name, comparison in found if not comparison.ok), "")

    def passes_kernelbench(self, delivered: Delivered) -> bool:
        """Whether KernelBench would accept it."""
        return all(passes_kernelbench(got, expected) for _, got, expected in self._pairs(delivered))

    def is_right(self, delivered: Delivered) -> bool:
        """Whether the output is correct; adds nothing to the evidence."""
        reduction = self._session.reduction(delivered.answer)
        pairs = self._pairs(delivered)
        return all(agrees(got, expected, reduction) for _, got, expected in pairs) and not self._left_out(
            delivered.answer
        )

    def _as_before(self, place: str, got: torch.Tensor, expected: torch.Tensor) -> str:
        """Return a hint for a buffer that the reference updates and the candidate leaves as it was before forward."""
        buffers = codec.Fields(self._session.state.tree).slot_map("buffers")
        name = next((name for name in buffers if place == AFTER_FORWARD.format(name)), None)
        if name is None:
            return ""
        before = tensor_views.view(self._session.state_buffer, buffers[name])
        if tensor_views.equal(before, expected) or not tensor_views.equal(before, got):
            return ""
        usually = ", as normalisations do in training mode" if name.rpartition(".")[2].startswith("running_") else ""
        return f". Model's forward updates this buffer{usually}: update it in a kernel as well"

    def _left_out(self, answer: Answer) -> str:
        """Say which buffer, updated by the reference's forward, the candidate lacks although it has its siblings."""
        names, session = self._recordings.module.buffer_names, self._session
        modules = {name.rpartition(".")[0] for name in names}
        before = codec.Fields(session.state.tree).slot_map("buffers")
        after = answer.expected[len(answer.expected) - len(answer.buffers) :]
        for name, expected in zip(answer.buffers, after, strict=True):
            known = name in before and name not in names and name.rpartition(".")[0] in modules
            known = known and not session.counts_idly(name, before[name])
            if known and not tensor_views.equal(tensor_views.view(session.state_buffer, before[name]), expected.value):
                return (
                    f"ModelNew lacks the buffer {name}, which Model's forward updates beside others of its module. "
                    "Register it under that name with register_buffer, and update it in a kernel"
                )
        return ""

    def _pairs(self, delivered: Delivered) -> Pairs:
        """Return a private copy of each output, paired with the expected one and a name for messages."""
        answer, tree = delivered.answer, codec.Fields(delivered.placed.tree)
        form = tree.value("output")
        slots, places = list(codec.slots(form)), list(outputs.places(form))
        # A single tensor needs no name.
        names = [""] if isinstance(form, TensorSlot) else [f"{place}: " for place in places]
        all_expected = self._with_usual(answer.expected)
        pairs = [
            (name, _copy(delivered, slot), expected)
            for name, slot, expected in zip(names, slots, all_expected, strict=False)
        ]
        after = dict(zip(answer.buffers, all_expected[len(slots) :], strict=True))
        kept = tree.slot_map("buffers")
        return pairs + [(AFTER_FORWARD.format(name), _copy(delivered, kept[name]), after[name]) for name in kept]

    def _with_usual(self, all_expected: list[Expected]) -> list[Expected]:
        """Return the expected outputs with the usual magnitudes of the first trial, whose inputs are plain.

        For other shapes it is the smallest usual magnitude of all elements.
        """
        known = self._usual if len(self._usual) == len(all_expected) else [None] * len(all_expected)
        return [
            expected
            if scale is None
            else replace(expected, usual=scale if _is_over(scale, expected.value) else scale.amin())
            for expected, scale in zip(all_expected, known, strict=True)
        ]


def _copy(delivered: Delivered, slot: TensorSlot) -> torch.Tensor:
    return tensor_views.view(delivered.memory, slot).clone()


def _is_over(scale: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether a scale broadcasts over tensors of a value's shape."""
    own = list(value.shape) + [2] * value.is_complex()
    return scale.dim() == len(own) and all(side in (1, size) for side, size in zip(scale.shape, own, strict=True))
