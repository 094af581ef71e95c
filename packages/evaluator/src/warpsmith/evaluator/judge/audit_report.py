"""Facts of a problem, without a candidate: wrong outputs that it would accept, bytes moved, the reference's time."""

import random
import secrets
from typing import Any, Final

from warpsmith.evaluator.correctness.compare import is_allclose
from warpsmith.evaluator.devices.base import Device
from warpsmith.evaluator.ipc.codec import slots
from warpsmith.evaluator.ipc.tensor_slots import TensorSlot
from warpsmith.evaluator.judge import problem_audit
from warpsmith.evaluator.judge.problem_audit import Accepts
from warpsmith.evaluator.judge.ring import make_ring
from warpsmith.evaluator.processes.machine import Machine
from warpsmith.evaluator.reference.form import Form
from warpsmith.evaluator.reference.session import Answer, ReferenceSession
from warpsmith.evaluator.timing import clocks
from warpsmith.evaluator.timing.clocks import Figures, Side

KERNELBENCH: Final = {"kernelbench_1e-2": 1e-2, "kernelbench_1e-4": 1e-4}
"""Tolerances of KernelBench, absolute and relative: 1e-2 in v0 and v0.1, 1e-4 in later versions for float32."""
NO_ROOM: Final = TensorSlot("float32", (1,), (1,))
"""The smallest room for an output: a reference that is timed alone writes none."""


def facts_of(session: ReferenceSession, machine: Machine) -> dict[str, Any]:
    """Return facts about the session's problem, as plain values.

    Returns:
        `passes`: for each comparison (`evaluator`, `kernelbench_1e-2`, `kernelbench_1e-4`) the wrong outputs of
        `problem_audit.CHEATS` that it would accept; `inputs_bytes`, `outputs_bytes`, `parameters_bytes`; `device`;
        when timing on a GPU, also those of `_times`.

    Raises:
        BadProblemError: the reference is not deterministic, or returns no tensor.
    """
    session.reset_state()
    with machine.lease.shared():
        first, second = problem_audit.two_answers(session)
        comparisons = {"evaluator": problem_audit.as_judged(session, second)}
        comparisons |= {name: allclose(tolerance) for name, tolerance in KERNELBENCH.items()}
        passes = {name: list(problem_audit.passing(first, second, accepts)) for name, accepts in comparisons.items()}
    sizes = _sizes(session, second)
    device = machine.device
    facts = {"passes": passes, **sizes, "device": device.title}
    if device.kind.times and machine.config.timing:
        facts |= _times(session, machine, device, sizes)
    return facts


def allclose(tolerance: float) -> Accepts:
    """Return KernelBench's comparison: `torch.allclose(expected, got, atol=tolerance, rtol=tolerance)`.

    Non-floating dtypes are compared exactly.
    """
    return lambda got, expected: is_allclose(got, expected.value, tolerance)


def _sizes(session: ReferenceSession, answer: Answer) -> dict[str, int]:
    return {
        "inputs_bytes": sum(slot.nbytes for slot in session.inputs.slots),
        "outputs_bytes": sum(slot.nbytes for slot in slots(answer.output)),
        "parameters_bytes": sum(slot.nbytes for slot in session.parameters.values()),
    }


def _times(session: ReferenceSession, machine: Machine, device: Device, sizes: dict[str, int]) -> dict[str, Any]:
    """Return the reference's time, and the time of moving its inputs and outputs at memory bandwidth.

    Returns:
        `reference_ms` with `low_ms`, `high_ms` (95 % interval of the median of the events) and `judge_ms` (by the
        judge's clock, or None); `bandwidth_bytes_per_s`, measured by writing; `roofline_ms`, the bytes of inputs and
        outputs over that bandwidth; `roofline_share`, `roofline_ms` over the reference's time.
    """
    rate = machine.bandwidth().memory
    rng = random.Random(secrets.randbits(64))
    no_room = Form.of([NO_ROOM], machine.config.max_tensor_bytes)
    # The reference writes no output to the ring, but each call holds one until the next call.
    ring = make_ring(
        session, device, no_room, rng,
        answered=False, output_bytes=sizes["outputs_bytes"], driving=machine.driving, shared=machine.lease.shared,
    )  # fmt: skip
    session.ring(len(ring.inputs), ring.fds[:1])
    try:
        with machine.lease.alone():
            side = Side(session.round, len(ring.inputs), rng)
            figures = clocks.measure_one(side, machine.config.timed_trials)
    finally:
        session.ring(0, [])
    return _share(figures, sizes["inputs_bytes"] + sizes["outputs_bytes"], rate)


def _share(figures: Figures, moved: int, rate: float) -> dict[str, Any]:
    roofline_ms = 1000 * moved / rate
    return {
        "reference_ms": figures.alone_ms,
        "low_ms": figures.low_ms,
        "high_ms": figures.high_ms,
        "judge_ms": figures.judge_ms,
        "bandwidth_bytes_per_s": rate,
        "roofline_ms": roofline_ms,
        "roofline_share": roofline_ms / figures.alone_ms,
    }
