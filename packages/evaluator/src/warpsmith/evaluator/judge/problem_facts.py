"""Facts learned once per problem and kept: its operations and bytes, and times of compiled baselines."""

import threading
from typing import Final

from warpsmith.evaluator.figures import Bound, Limit
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.judge.compiled_baselines import CompiledBaselines
from warpsmith.evaluator.processes.machine import Machine
from warpsmith.evaluator.reference.session import Answer, ReferenceSession
from warpsmith.evaluator.timing.floor import LEAST_SHARE

MOST_KEPT: Final = 10_000

Operations = dict[str, int]
"""Floating-point operations by dtype."""


class ProblemFacts:
    """Facts of problems, by key.

    Attributes:
        baselines: the times of compiled references.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._lock = threading.Lock()
        self._operations: dict[str, Operations | None] = {}
        self.baselines = CompiledBaselines(machine)

    def bound(self, key: str, session: ReferenceSession, answer: Answer) -> Bound:
        """Return a problem's bound on this device. The device must not be leased by this thread.

        Args:
            key: the problem's.
            session: holds inputs of the problem's own form.
            answer: the reference's answer to inputs of that form.
        """
        moved, operations = bytes_of(session, answer), self._counted(key, session)
        flops = None if operations is None else sum(operations.values())
        if not self._machine.device.kind.times or not self._machine.config.timing:
            return Bound(moved, flops)
        memory_ms = 1000 * moved / self._machine.memory_rate()
        compute_ms = None if operations is None else self._compute_ms(operations)
        launch_ms = self._machine.bandwidth().least_ms / LEAST_SHARE
        limits: dict[Limit, float] = {"memory": memory_ms, "compute": compute_ms or 0.0, "launch": launch_ms}
        limited_by = max(limits, key=limits.__getitem__)
        return Bound(moved, flops, memory_ms, compute_ms, limits[limited_by], limited_by)

    def _counted(self, key: str, session: ReferenceSession) -> Operations | None:
        """Return the operations of a problem, counted once."""
        with self._lock:
            if key in self._operations:
                return self._operations[key]
        with self._machine.lease.shared():
            found = session.operations()
        with self._lock:
            self._operations[key] = found
            if len(self._operations) > MOST_KEPT:
                del self._operations[next(iter(self._operations))]
        return found

    def _compute_ms(self, operations: Operations) -> float | None:
        """Return the time of operations at the rate of each dtype's products; None if a rate is not known."""
        total = 0.0
        for dtype, count in operations.items():
            rate = self._machine.matrix_rate(dtype)
            if rate is None:
                return None
            total += 1000 * count / rate
        return total


def bytes_of(session: ReferenceSession, answer: Answer) -> int:
    """Return the bytes of inputs, parameters and buffers, and outputs."""
    state = codec.Fields(session.state.tree)
    held = (*session.parameters.values(), *state.slot_map("buffers").values())
    return sum(slot.value_bytes for slot in (*session.inputs.slots, *held, *codec.slots(answer.output)))
