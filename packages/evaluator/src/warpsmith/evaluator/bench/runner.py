"""Judges the unjudged generations concurrently, and records each verdict as it comes."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Final

from warpsmith.evaluator.bench.generations import Generation
from warpsmith.evaluator.bench.settings import Settings, key_of
from warpsmith.evaluator.bench.verdict_log import Outcome, Refusal, VerdictLog, ended_now
from warpsmith.evaluator.client.interface import SyncEvaluator
from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.recordings.library_policy import OperatorPolicy
from warpsmith.evaluator.verdict import Verdict

POLL_S: Final = 0.2
"""Longest wait: a signal that arrives just before a wait is handled only after the wait."""
MOST_CHARACTERS: Final = 256 << 10
"""Longest candidate that is judged: the servers' limit."""


@dataclass(frozen=True)
class Task:
    """One evaluation: identical answers to a problem share one."""

    key: str
    problem: Problem
    generation: Generation


def tasks_of(
    problems: Sequence[Problem], generations: Iterable[Generation], settings: Settings
) -> tuple[list[Task], list[Generation]]:
    """Pair generations with their problems.

    Returns:
        One task per generation, in order, and the generations whose problem is not in the dataset.
    """
    by_place = {(problem.level, problem.number): problem for problem in problems}
    tasks, not_in_dataset = [], []
    for generation in generations:
        problem = by_place.get((generation.level, generation.number))
        if problem is None:
            not_in_dataset.append(generation)
        else:
            tasks.append(Task(key_of(problem, generation, settings), problem, generation))
    return tasks, not_in_dataset


def unsettled(tasks: Iterable[Task], log: VerdictLog) -> list[Task]:
    """Return the tasks still to be judged, without duplicate keys: unknown ones, and those that ended as `invalid`."""
    waiting = {task.key: task for task in reversed(list(tasks)) if not _is_settled(log.outcomes.get(task.key))}
    return list(reversed(waiting.values()))


def _is_settled(outcome: Outcome | None) -> bool:
    return outcome is not None and outcome.settled


OnDone = Callable[[Task, Outcome], None]


@dataclass
class Runner:
    """Judges tasks.

    Args:
        judge: used from several threads.
        at_once: concurrent evaluations.
        trials: correctness trials.
        timeout_s: deadline of a candidate's run, in seconds.
        operators: what candidates may compute with torch besides their kernels.
    """

    judge: SyncEvaluator
    at_once: int
    trials: int
    timeout_s: float
    operators: OperatorPolicy

    def run(self, tasks: Sequence[Task], log: VerdictLog, on_done: OnDone) -> None:
        """Judge all tasks and record each outcome; `on_done` is called for each in the order in which they end.

        Once a problem is refused, its other candidates are not judged.

        Raises:
            EvaluatorError: no judge is available (no isolation, no server). Finished verdicts stay recorded.
        """
        refused: dict[str, Refusal] = {}
        ended: SimpleQueue[Future[Outcome]] = SimpleQueue()
        pool = ThreadPoolExecutor(self.at_once, "bench")
        try:
            waiting = {pool.submit(self._outcome, task, refused): task for task in tasks}
            for future in waiting:
                future.add_done_callback(ended.put)
            while waiting:
                try:
                    future = ended.get(timeout=POLL_S)
                except Empty:
                    continue
                _take(future, waiting.pop(future), log, on_done)
        finally:
            # Running ones end when their judge is closed.
            pool.shutdown(wait=False, cancel_futures=True)

    def _outcome(self, task: Task, refused: dict[str, Refusal]) -> Outcome:
        known = refused.get(task.problem.key)
        if known is not None:
            return ended_now(task.key, refusal=known)
        if len(task.generation.source) > MOST_CHARACTERS:
            return ended_now(task.key, verdict=_too_long(len(task.generation.source)))
        try:
            verdict = self.judge.evaluate(
                task.problem,
                task.generation.source,
                trials=self.trials,
                timeout_s=self.timeout_s,
                operators=self.operators,
            )
        except BadProblemError as error:
            refused[task.problem.key] = refusal = Refusal(error.message, error.remedy)
            return ended_now(task.key, refusal=refusal)
        return ended_now(task.key, verdict=verdict)


def _take(future: "Future[Outcome]", task: Task, log: VerdictLog, on_done: OnDone) -> None:
    outcome = future.result()
    log.append(outcome)
    on_done(task, outcome)


def _too_long(characters: int) -> Verdict:
    return Verdict(
        "rejected",
        compiled=False,
        correct=False,
        error_category="parse_error",
        error_message=f"The candidate has {characters} characters; at most {MOST_CHARACTERS} are judged.",
    )
