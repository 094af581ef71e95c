"""Scores a run's verdicts by level: counts, fast_p, pass@k, speedups.

The unit of scoring is an answer: there is one for each problem of the dataset and each sample number that occurs at its
level. A missing generation is a failure by default. Answers that the evaluator could not judge (`invalid`, or a refused
problem) have no score: they are left out, counted and named. Each problem has the same weight, however many of its
answers remain.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from warpsmith.evaluator.bench.baseline import Baseline
from warpsmith.evaluator.bench.generations import Generation
from warpsmith.evaluator.bench.scores import FASTER_THAN, geometric_mean, pass_at_k
from warpsmith.evaluator.bench.verdict_log import Outcome
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.verdict import Verdict

State = Literal["judged", "missing", "invalid", "refused"]


@dataclass(frozen=True)
class Answer:
    """One problem and one sample of a run.

    Attributes:
        problem: the problem, with its level and number.
        sample: number of the answer to it.
        generation: None if the run has none.
        outcome: None if nothing was judged.
        baseline_ms: stored time of the problem's reference, if there is one.
    """

    problem: Problem
    sample: int
    generation: Generation | None = None
    outcome: Outcome | None = None
    baseline_ms: float | None = None

    @property
    def verdict(self) -> Verdict | None:
        return self.outcome.verdict if self.outcome else None

    @property
    def state(self) -> State:
        if self.outcome is None:
            return "missing"
        if self.outcome.refusal is not None:
            return "refused"
        return "judged" if self.outcome.settled else "invalid"

    @property
    def correct(self) -> bool:
        return self.verdict is not None and self.verdict.correct

    @property
    def passes_kernelbench(self) -> bool:
        """Whether KernelBench's default comparison would accept it, on the problem's own inputs."""
        return self.correct or (self.verdict is not None and "kernelbench_passes" in self.verdict.flags)

    @property
    def compiled(self) -> bool:
        return self.state == "judged" and self.verdict is not None and self.verdict.compiled

    @property
    def speedup(self) -> float | None:
        """Reference time over candidate time, both taken by the evaluator; None unless correct and timed."""
        return self.verdict.speedup if self.verdict is not None and self.correct else None

    @property
    def baseline_speedup(self) -> float | None:
        """Stored reference time over the candidate's; None unless correct, timed and known to the baseline."""
        if self.baseline_ms is None or self.verdict is None or not self.correct or not self.verdict.runtime_ms:
            return None
        return self.baseline_ms / self.verdict.runtime_ms

    @property
    def in_other_language(self) -> bool:
        """Whether it is written, at least in part, in another kernel language than the one that is judged."""
        return self.verdict is not None and "other_language" in self.verdict.flags

    @property
    def name(self) -> str:
        """`level 1 problem 19 (19_ReLU) sample 0`, or `definition gemm candidate tiled`."""
        return self._place.title(self.problem.name)

    @property
    def problem_name(self) -> str:
        """`level 1 problem 19 (19_ReLU)`, or `definition gemm`."""
        return self._place.problem_title(self.problem.name)

    @property
    def _place(self) -> Generation:
        missing = Generation(self.problem.level or 0, self.problem.number or 0, self.sample, Path())
        return self.generation or missing


@dataclass(frozen=True)
class Speed:
    """Speedups of one level against one reference.

    Attributes:
        fast_p: by p, the share of answers that are correct and more than p times as fast (strictly), 0 to 1.
        n: number of answers, failures included.
        geometric_mean: geometric mean of the speedups of correct and timed answers; None if there are none.
        over: number of those answers.
        untimed: correct answers without a time, which count as not faster.
    """

    fast_p: dict[float, float]
    n: int
    geometric_mean: float | None
    over: int
    untimed: int


@dataclass(frozen=True)
class LevelScore:
    """One level of a run, or all levels (`level` None).

    Attributes:
        problems: problems of the dataset.
        answers: problems times samples.
        counted: answers that count as a success or a failure.
        missing, invalid, refused: answers that were not judged, by reason.
        statuses: verdicts by status.
        compiled, correct: counted answers that compiled, and that are correct.
        passes_kernelbench: counted answers that KernelBench's default comparison would accept.
        compiled_rate, correct_rate: mean over problems of the share of counted answers, 0 to 1; None if none counts.
        pass_at: by k, unbiased pass@k over the problems with at least k counted answers.
        pass_over: by k, number of those problems.
        speed: speedups over the reference timed with each candidate; None if nothing was timed.
        baseline_speed: speedups over a stored baseline; None without one, or if nothing was timed.
        speed_over: speedups over each form of the reference that was timed, by its name as in `evaluator.baseline`.
    """

    level: int | None
    problems: int
    answers: int
    counted: int
    missing: int
    invalid: int
    refused: int
    statuses: dict[str, int]
    compiled: int
    correct: int
    passes_kernelbench: int
    compiled_rate: float | None
    correct_rate: float | None
    pass_at: dict[int, float]
    pass_over: dict[int, int]
    speed: Speed | None
    baseline_speed: Speed | None
    speed_over: dict[str, Speed] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return asdict(self)


def answers_of(
    problems: Sequence[Problem],
    generations: Sequence[Generation],
    outcome_of: Callable[[Problem, Generation], Outcome | None],
    baseline: Baseline | None = None,
) -> list[Answer]:
    """Return one answer for each problem and each sample number of its level, including missing ones.

    A level without a generation has sample 0, which is missing. Generations outside the dataset are ignored.
    """
    found = {(one.level, one.number, one.sample): one for one in generations}
    places = {(problem.level, problem.number) for problem in problems}
    samples: dict[int, set[int]] = {}
    for one in generations:
        if (one.level, one.number) in places:
            samples.setdefault(one.level, set()).add(one.sample)
    answers = []
    for problem in problems:
        stored = baseline.mean_ms(problem) if baseline else None
        for sample in sorted(samples.get(problem.level or 0, {0})):
            generation = found.get((problem.level or 0, problem.number or 0, sample))
            outcome = outcome_of(problem, generation) if generation else None
            answers.append(Answer(problem, sample, generation, outcome, stored))
    return answers


def score(answers: Iterable[Answer], *, missing_fail: bool = True, baseline: bool = False) -> list[LevelScore]:
    """Return the score of each level, and the total if there are several.

    Args:
        answers: answers in the order of their levels and problems.
        missing_fail: whether a missing generation is a failure instead of being left out.
        baseline: whether the answers have stored times.
    """
    everything = list(answers)
    levels = [list(group) for _, group in groupby(everything, key=lambda answer: answer.problem.level)]
    scores = [_score(level[0].problem.level, level, missing_fail, baseline) for level in levels]
    return scores if len(levels) < 2 else [*scores, _score(None, everything, missing_fail, baseline)]


def _score(level: int | None, answers: list[Answer], missing_fail: bool, baseline: bool) -> LevelScore:
    counted = _counted(answers, missing_fail)
    states = Counter(answer.state for answer in answers)
    by_problem = _by_problem(counted)
    pass_at, pass_over = _pass_at(by_problem)
    return LevelScore(
        level=level,
        problems=len({_problem(answer) for answer in answers}),
        answers=len(answers),
        counted=len(counted),
        missing=states["missing"],
        invalid=states["invalid"],
        refused=states["refused"],
        statuses=dict(Counter(one.verdict.status for one in answers if one.verdict is not None).most_common()),
        compiled=sum(answer.compiled for answer in counted),
        correct=sum(answer.correct for answer in counted),
        passes_kernelbench=sum(answer.passes_kernelbench for answer in counted),
        compiled_rate=_mean_share(by_problem, lambda answer: answer.compiled),
        correct_rate=_mean_share(by_problem, lambda answer: answer.correct),
        pass_at=pass_at,
        pass_over=pass_over,
        speed=_speed(counted, lambda answer: answer.speedup),
        baseline_speed=_baseline_speed(counted) if baseline else None,
        speed_over=_speed_over(counted),
    )


def _counted(answers: list[Answer], missing_fail: bool) -> list[Answer]:
    """Return the answers that are a success or a failure; none for a refused problem, which could not be solved."""
    refused = {_problem(answer) for answer in answers if answer.state == "refused"}
    states = {"judged", "missing"} if missing_fail else {"judged"}
    return [answer for answer in answers if answer.state in states and _problem(answer) not in refused]


def _problem(answer: Answer) -> tuple[int | None, int | None]:
    return answer.problem.level, answer.problem.number


def _by_problem(answers: Iterable[Answer]) -> list[list[Answer]]:
    return [list(group) for _, group in groupby(answers, key=_problem)]


def _mean_share(problems: Sequence[Sequence[Answer]], holds: Callable[[Answer], bool]) -> float | None:
    """Return the mean over problems of the share of answers for which something holds."""
    shares = [sum(map(holds, answers)) / len(answers) for answers in problems]
    return sum(shares) / len(shares) if shares else None


def _pass_at(problems: Sequence[Sequence[Answer]]) -> tuple[dict[int, float], dict[int, int]]:
    counts = [(len(answers), sum(answer.correct for answer in answers)) for answers in problems]
    pass_at, over = {}, {}
    for k in range(1, max((samples for samples, _ in counts), default=0) + 1):
        chances = [pass_at_k(samples, solved, k) for samples, solved in counts if samples >= k]
        pass_at[k], over[k] = sum(chances) / len(chances), len(chances)
    return pass_at, over


def _is_timed(answers: Sequence[Answer]) -> bool:
    """Whether times were measured: for any correct answer, or if none is correct, whether the device allows it."""
    verdicts = [answer.verdict for answer in answers if answer.verdict is not None]
    correct = [verdict for verdict in verdicts if verdict.correct]
    if correct:
        return any(verdict.timing_tier != "none" for verdict in correct)
    return any(verdict.device != "cpu" for verdict in verdicts)


def _speed(answers: Sequence[Answer], speedup_of: Callable[[Answer], float | None]) -> Speed | None:
    if not _is_timed(answers):
        return None
    speedups = [speedup for answer in answers if (speedup := speedup_of(answer)) is not None]
    problems = _by_problem(answers)
    return Speed(
        fast_p={p: _fast(problems, p, speedup_of) for p in FASTER_THAN},
        n=len(answers),
        geometric_mean=geometric_mean(speedups),
        over=len(speedups),
        untimed=sum(answer.correct for answer in answers) - len(speedups),
    )


def _speed_over(answers: Sequence[Answer]) -> dict[str, Speed]:
    """Return the speed over each baseline that any verdict has, over the problems whose reference has that form."""
    verdicts = [(answer, answer.verdict) for answer in answers if answer.verdict is not None]
    lacking = {(_problem(answer), note.baseline) for answer, verdict in verdicts for note in verdict.baseline_notes}
    found = {}
    for name in dict.fromkeys(name for _, verdict in verdicts for name in verdict.speedups):
        kept = [answer for answer in answers if (_problem(answer), name) not in lacking]
        speed = _speed(kept, partial(_speedup_over, name=name))
        if speed is not None:
            found[name] = speed
    return found


def _speedup_over(answer: Answer, name: str) -> float | None:
    return answer.verdict.speedups.get(name) if answer.verdict is not None and answer.correct else None


def _fast(problems: Sequence[Sequence[Answer]], p: float, speedup_of: Callable[[Answer], float | None]) -> float:
    def is_fast(answer: Answer) -> bool:
        if p == 0:
            # A correct answer counts for p = 0, timed or not.
            return answer.correct
        speedup = speedup_of(answer)
        return speedup is not None and speedup > p

    return _mean_share(problems, is_fast) or 0.0


def _baseline_speed(answers: Sequence[Answer]) -> Speed | None:
    """Return the speed against the stored baseline, over the problems that it has."""
    return _speed([answer for answer in answers if answer.baseline_ms is not None], lambda one: one.baseline_speedup)
