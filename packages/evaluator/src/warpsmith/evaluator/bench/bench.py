"""One bench from start to end: read, judge the unjudged, score, write."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from warpsmith.evaluator.bench import page, results, scoring
from warpsmith.evaluator.bench.baseline import Baseline, read_baseline
from warpsmith.evaluator.bench.generations import Generation, Run, read_run
from warpsmith.evaluator.bench.progress import Reporter
from warpsmith.evaluator.bench.repairing import repaired_in
from warpsmith.evaluator.bench.runner import Runner, Task, tasks_of, unsettled
from warpsmith.evaluator.bench.scoring import Answer, LevelScore
from warpsmith.evaluator.bench.settings import Settings
from warpsmith.evaluator.bench.trace_inputs import TraceInputs, read_inputs, write_results
from warpsmith.evaluator.bench.verdict_log import Outcome, VerdictLog, usable_folder
from warpsmith.evaluator.client.interface import SyncEvaluator
from warpsmith.evaluator.datasets.kernelbench import load_problems
from warpsmith.evaluator.languages.registry import language_of
from warpsmith.evaluator.languages.source_language import option_of, other_language, wider_language
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.recordings.library_policy import OperatorPolicy
from warpsmith.evaluator.traces.dataset import DatasetFormat
from warpsmith.evaluator.verdict import Verdict
from warpsmith.records.errors import UsageError
from warpsmith.records.wording import counted, printable

OUT: Final = "warpsmith-bench"
"""Default folder for results, inside the run's folder."""
LONGEST_LINE: Final = 240
"""Maximum characters of a progress line's result; summary.json and report.html have whole messages."""


@dataclass(frozen=True)
class Plan:
    """What to judge, and how.

    Attributes:
        dataset: where the problems are; see `datasets.load_problems`.
        generations: the run's folder.
        out: folder for results.
        levels: levels to judge; those of the generations if empty.
        settings: the settings that affect verdicts.
        at_once: concurrent evaluations.
        trials: correctness trials.
        timeout_s: deadline of a candidate's run, in seconds.
        operators: what candidates may compute with torch besides their kernels.
        missing_fail: whether a missing generation counts as a failure.
        baseline: KernelBench's stored times, or None.
        format: format of the dataset. Those of traces have one level, and no generation of theirs is missing.
        traces: folder for traces, or None; only for such formats.
        tensors: folder that their tensor files' paths may be relative to, or None; likewise.
        language: kernel language of the candidates, named in solutions that are written.
    """

    dataset: Path
    generations: Path
    out: Path
    levels: tuple[int, ...]
    settings: Settings
    at_once: int
    trials: int
    timeout_s: float
    operators: OperatorPolicy
    missing_fail: bool = True
    baseline: Path | None = None
    format: DatasetFormat = "kernelbench"
    traces: Path | None = None
    tensors: Path | None = None
    language: str = "triton"


@dataclass(frozen=True)
class Result:
    """The result of a bench.

    Attributes:
        report: what was run, and the names of what was not scored.
        answers: one per problem and sample.
        scores: scores by level.
        files: the written files.
    """

    report: dict[str, Any]
    answers: list[Answer]
    scores: list[LevelScore]
    files: list[Path]

    @property
    def complete(self) -> bool:
        """Whether no answer ended as `invalid`, so that nothing remains to be judged."""
        return not self.report["invalid"]


@dataclass(frozen=True)
class _Read:
    """The files read before anything is judged."""

    run: Run
    problems: list[Problem]
    baseline: Baseline | None
    tasks: list[Task]
    not_in_dataset: list[Generation]
    traced: TraceInputs | None = None
    repaired: Sequence[str] = ()


class StoppedError(Exception):
    """The bench was interrupted; finished verdicts are recorded."""

    def __init__(self, settled: int, total: int) -> None:
        super().__init__(f"{settled} of {total} answers are judged")
        self.settled = settled
        self.total = total


def conduct(
    plan: Plan, judging: Callable[[], AbstractContextManager[SyncEvaluator]], console: Console | None = None
) -> Result:
    """Judge what is not judged yet, and write all results.

    Args:
        plan: what to judge.
        judging: opens the judge; called only if something remains to be judged.
        console: receives progress; stderr by default.

    Raises:
        UsageError, DatasetError: run, dataset or baseline cannot be read, or do not belong together.
        VerdictLogError: the log is damaged, or in use by another process.
        EvaluatorError: no judge is available. Finished verdicts stay recorded.
        StoppedError: interrupted from the keyboard.
    """
    read = _read(plan)
    with VerdictLog(usable_folder(plan.out)) as log:
        waiting = unsettled(read.tasks, log)
        with Reporter(len(waiting), "answers", console) as reporter:
            _announce(read, len(waiting), reporter)
            with _interruptible(read.tasks, log):
                _judge(plan, judging, waiting, log, reporter)
        return _written(plan, read, log)


def _read(plan: Plan) -> _Read:
    if plan.format == "kernelbench":
        return _read_kernelbench(plan)
    if plan.levels or plan.baseline:
        raise UsageError(
            f"A dataset of the format {plan.format} has no levels and no stored baseline.", "Leave them out."
        )
    traced = read_inputs(plan.dataset, plan.generations, plan.format, plan.tensors)
    tasks, not_in_dataset = tasks_of(traced.problems, traced.run.generations, plan.settings)
    return _Read(traced.run, traced.problems, None, tasks, not_in_dataset, traced)


def _read_kernelbench(plan: Plan) -> _Read:
    if plan.traces is not None or plan.tensors is not None:
        raise UsageError("--traces and --tensors need a dataset of traces.", "docs/traces.md describes the formats.")
    run = read_run(plan.generations, plan.levels)
    levels = plan.levels or tuple(sorted({one.level for one in run.generations}))
    problems = load_problems(plan.dataset, levels, may_lack=not plan.levels)
    altered = repaired_in(plan.dataset, problems)
    tasks, not_in_dataset = tasks_of(problems, run.generations, plan.settings)
    if not tasks:
        raise UsageError(
            f"No generation of {plan.generations} belongs to a problem in {plan.dataset}.",
            "Give the dataset that the run was made from; levels and problem numbers must match.",
        )
    baseline = read_baseline(plan.baseline) if plan.baseline else None
    return _Read(run, problems, baseline, tasks, not_in_dataset, repaired=altered)


def _announce(read: _Read, waiting: int, reporter: Reporter) -> None:
    known = len({task.key for task in read.tasks}) - waiting
    if known:
        there = f"{counted(known, 'verdict')} {'is' if known == 1 else 'are'} already recorded"
        reporter.note(f"{there} and not requested again; {waiting} remain.")
    for name in read.run.unrecognized:
        reporter.note(f"ignored, not named like a generation: {name}")
    for reason in read.traced.set_aside if read.traced else ():
        reporter.note(f"not judged: {reason}")
    for one in read.not_in_dataset:
        reporter.note(f"not judged, the dataset has no problem {one.number} of level {one.level}: {one.path.name}")


def _judge(
    plan: Plan,
    judging: Callable[[], AbstractContextManager[SyncEvaluator]],
    waiting: Sequence[Task],
    log: VerdictLog,
    reporter: Reporter,
) -> None:
    if not waiting:
        return

    def on_done(task: Task, outcome: Outcome) -> None:
        reporter.done(task.generation.title(), in_words(outcome))

    with judging() as judge:
        Runner(judge, plan.at_once, plan.trials, plan.timeout_s, plan.operators).run(waiting, log, on_done)


def in_words(outcome: Outcome) -> str:
    """Return an outcome in a line: its status with the speedup or the cause, or why the problem is refused."""
    verdict, refusal = outcome.verdict, outcome.refusal
    if verdict is None:
        return _one_line(f"refused: {refusal.message} {refusal.remedy}" if refusal else "refused")
    return verdict_in_words(verdict)


def verdict_in_words(verdict: Verdict) -> str:
    """Return a verdict in a line: its status with the speedup, or with the cause."""
    if verdict.speedup is not None:
        return f"{verdict.status} {verdict.speedup:.2f}x"
    return _one_line(f"{verdict.status}: {verdict.error_message}" if verdict.error_message else verdict.status)


def _one_line(text: str) -> str:
    """Return text that foreign code may have made as one line without terminal sequences, truncated if long."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} ..."


@contextmanager
def _interruptible(tasks: Sequence[Task], log: VerdictLog) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        total = {task.key for task in tasks}
        raise StoppedError(sum(log.outcomes[key].settled for key in total & log.outcomes.keys()), len(total)) from None


def _written(plan: Plan, read: _Read, log: VerdictLog) -> Result:
    keys = {(task.problem.level, task.problem.number, task.generation.sample): task.key for task in read.tasks}

    def outcome_of(problem: Problem, generation: Generation) -> Outcome:
        return log.outcomes[keys[problem.level, problem.number, generation.sample]]

    answers = scoring.answers_of(read.problems, read.run.generations, outcome_of, read.baseline)
    missing_fail = plan.missing_fail and read.traced is None
    scores = scoring.score(answers, missing_fail=missing_fail, baseline=read.baseline is not None)
    if read.traced is not None:
        # The one level that they are in is ours, so it has no name in reports.
        scores = [replace(one, level=None) for one in scores]
    report = _report(plan, read, answers)
    files = [
        results.write_table(plan.out, report["run"], answers),
        *results.write_eval_results(plan.out, answers),
        results.write_summary(plan.out, report, scores),
        page.write_page(plan.out, report, answers, scores),
    ]
    if plan.traces is not None and read.traced is not None:
        files += write_results(read.traced, answers, plan.traces, plan.language)
    return Result(report, answers, scores, files)


def _report(plan: Plan, read: _Read, answers: Sequence[Answer]) -> dict[str, Any]:
    def names(state: scoring.State) -> list[str]:
        return [answer.name for answer in answers if answer.state == state]

    unknown = [problem.name for problem in read.problems if read.baseline and read.baseline.mean_ms(problem) is None]
    return {
        "run": plan.generations.resolve().name,
        "dataset": str(plan.dataset),
        "format": plan.format,
        "repaired": list(read.repaired),
        "generations": str(plan.generations),
        "settings": dict(plan.settings),
        "devices": sorted({answer.verdict.device for answer in answers if answer.verdict}),
        "missing_fail": plan.missing_fail and read.traced is None,
        "missing": names("missing"),
        "invalid": names("invalid"),
        "refused": names("refused"),
        "refusals": _refusals(answers),
        "other_language": [_with_language(answer, plan) for answer in answers if answer.in_other_language],
        "not_in_dataset": [one.path.name for one in read.not_in_dataset],
        "unrecognized": list(read.run.unrecognized),
        "set_aside": list(read.traced.set_aside) if read.traced else [],
        "baseline": str(plan.baseline) if plan.baseline else None,
        "not_in_baseline": unknown,
    }


def _refusals(answers: Sequence[Answer]) -> dict[str, str]:
    """Say why each refused problem is refused, and what to do about it."""
    return {
        answer.problem_name: f"{answer.outcome.refusal.message} {answer.outcome.refusal.remedy}".strip()
        for answer in answers
        if answer.outcome is not None and answer.outcome.refusal is not None
    }


def _with_language(answer: Answer, plan: Plan) -> str:
    """Return the name of an answer in another language, with the language and the option that judges it."""
    judged = language_of(str(plan.settings.get("language", plan.language)))
    source = answer.generation.source if answer.generation else ""
    found = other_language(source, judged) or wider_language(source, judged)
    return answer.name if found is None else f"{answer.name}: {found.title}, {option_of(found)}"
