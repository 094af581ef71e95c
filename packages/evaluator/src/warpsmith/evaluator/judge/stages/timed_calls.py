"""Timed calls: times a replay and the reference, and checks the outputs of the calls."""

import random
from typing import TYPE_CHECKING, Final

from warpsmith.evaluator.judge import benchmark
from warpsmith.evaluator.judge.evaluation import Evaluation
from warpsmith.evaluator.judge.evidence import claims
from warpsmith.evaluator.judge.replays import Delivered
from warpsmith.evaluator.judge.ring import Ring, make_ring
from warpsmith.evaluator.processes.failure_attribution import CandidateFailedError
from warpsmith.evaluator.processes.phases import in_phase
from warpsmith.evaluator.recordings.recording import Recording
from warpsmith.evaluator.reference.form import Form
from warpsmith.evaluator.reference.session import Answer

if TYPE_CHECKING:
    import torch

    from warpsmith.evaluator.devices.tensor_views import Part
    from warpsmith.evaluator.languages.base import KernelLanguage


@in_phase("timing")
@claims()
def time_calls(evaluation: Evaluation, recordings: list[Recording], answer: Answer, rng: random.Random) -> None:
    """Time a replay and the reference, and compare the outputs of the timed calls.

    Then a few calls are profiled, untimed, for the share of the device's time in the candidate's own kernels. A call
    that consists of launches alone has a share of one.

    Raises:
        CandidateFailedError: the timed calls give another output than the trials.
    """
    session, replays, machine = evaluation.session, evaluation.replays, evaluation.machine
    recording = steady(recordings)
    only_kernels = _has_only_kernels(recording, machine.language)
    with machine.lease.shared():
        placed = replays.play(recording, answer).placed
    reduction = session.reduction(answer)

    def compared(answer: Answer, placed: Form, memory: "Part | torch.Tensor") -> str:
        return evaluation.comparer.wrong_when_timed(Delivered(answer, placed, memory), reduction)

    ring = make_ring(session, machine.device, placed, rng, driving=machine.driving, shared=machine.lease.shared)
    sizes = {"sets": len(ring.inputs), "inputs_bytes": ring.inputs[0].size, "answers_bytes": placed.size}
    session.ring(len(ring.inputs), ring.fds[:1])
    try:
        with machine.clock.phase("mapping"):
            replays.set_ring(sizes, ring.fds)
        witness = benchmark.Witness(session, ring, compared, rng)
        config, least_ms = evaluation.candidate.config, machine.bandwidth().least_ms
        outcome = benchmark.conduct(
            witness,
            replays.round,
            config.timed_trials,
            machine.lease,
            least_ms=least_ms,
            sequential=config.sequential_timing,
            beside=config.contexts_beside_timing or config.driver_beside_timing,
            profile=(lambda: 1.0) if only_kernels else replays.kernel_share,
            clock=machine.sm_clock,
        )
        _accept(evaluation, outcome, sum(slot.nbytes for slot in placed.slots))
        _time_baselines(evaluation, ring, rng)
    finally:
        session.ring(0, [])


def _time_baselines(evaluation: Evaluation, ring: Ring, rng: random.Random) -> None:
    """Note the times of the problem's compiled references, which are measured once per problem."""
    names = evaluation.candidate.config.compiled_baselines
    if names:
        with evaluation.machine.clock.phase("baselines"):
            found = evaluation.facts.baselines.of(evaluation.problem, evaluation.session, ring, names, rng)
        evaluation.evidence.baselines = found


def steady(recordings: list[Recording]) -> Recording:
    """Return the recording to time: the last one that depends on no earlier call.

    The first call of an autotuned kernel launches it more often than later calls do.
    """
    return [recording for recording in recordings if not recording.past][-1]


def _has_only_kernels(recording: Recording, language: "KernelLanguage") -> bool:
    """Whether a call consists of launches alone, so that its kernels have all of the device's time."""
    copies = language.copy_to_variable
    return all(event[0] in _MEMORY or (event[0] == "launch" and event[1] != copies) for event in recording.events)


_MEMORY: Final = frozenset({"alloc", "const", "literal"})
"""Events that make memory before the first call, and take no time in one."""


def _accept(evaluation: Evaluation, outcome: benchmark.Outcome, written: int) -> None:
    """Keep a timing, unless the timed calls were wrong or impossibly fast."""
    evidence = evaluation.evidence
    evidence.timing, evidence.kernel_share, evidence.clock = outcome.timing, outcome.kernel_share, outcome.clock
    if outcome.wrong:
        evidence.flags.add("wrong_when_timed")
        raise CandidateFailedError(
            "rejected",
            None,
            f"The timed calls give another output than the trials: {outcome.wrong}. Compute the whole output in "
            "every call, from the inputs of that call.",
        )
    floor = evaluation.machine.bandwidth().floor_ms(written)
    if outcome.timing.runtime_ms < benchmark.BELOW_FLOOR * floor:
        evidence.flags.add("impossible_time")
        raise CandidateFailedError(
            "rejected",
            None,
            f"The kernels take {outcome.timing.runtime_ms:.4f} ms; writing the output alone takes {floor:.4f} ms. "
            "Write every element of the output in every call.",
        )
    if outcome.timing.disagrees:
        evidence.flags.add("clocks_disagree")
