"""All searches of a bench: opened together, bounded, recorded as they run, resumed after a kill."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console

from warpsmith.evaluator.bench.bench import verdict_in_words
from warpsmith.evaluator.bench.progress import Reporter
from warpsmith.evaluator.bench.verdict_log import VerdictLog
from warpsmith.records.errors import UsageError
from warpsmith.records.folders import write_file
from warpsmith.records.layout import records_dir
from warpsmith.records.text import read_json
from warpsmith.records.wording import counted
from warpsmith.records.writer import RunWriter
from warpsmith.rollout.bench.config import BenchConfig, differing, judging_settings, problem_set, settings_of
from warpsmith.rollout.bench.endpoint import Endpoint
from warpsmith.rollout.bench.errors import EndpointFailingError, RetryableError
from warpsmith.rollout.bench.judging import Judge
from warpsmith.rollout.bench.prompting import Prompter
from warpsmith.rollout.bench.recording import RecordedAttempt, Recorder, SearchName, recorded_attempts
from warpsmith.rollout.bench.results import Described
from warpsmith.rollout.bench.search import SearchOutcome, SearchParts, run_search
from warpsmith.rollout.bench.strategies.registry import make_strategy
from warpsmith.rollout.concurrency import all_or_first_error
from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.datasets import ProblemRow
from warpsmith.rollout.evaluators.cache import CachedEvaluator
from warpsmith.rollout.evaluators.open import open_evaluator
from warpsmith.rollout.rewards.registry import scorer_for

FILE: Final = "bench.json"
FORMAT: Final = 1


class BenchStoppedError(Exception):
    """The bench was interrupted from the keyboard; finished attempts are recorded."""


@dataclass
class _Losses:
    """Counts requests that failed one after another.

    Args:
        most: how many end the bench.
    """

    most: int
    in_a_row: int = field(default=0)

    def see(self, error: RetryableError | None) -> None:
        """Note a request's last error, or an answer.

        Raises:
            EndpointFailingError: too many requests in a row failed.
        """
        self.in_a_row = 0 if error is None else self.in_a_row + 1
        if error is not None and self.in_a_row >= self.most:
            raise EndpointFailingError(
                f"{self.in_a_row} requests in a row failed with all their retries; the last one: {error.message}",
                f"{error.remedy} The same command continues from here.".strip(),
            )


def describe(name: str, config: BenchConfig, problems: Sequence[ProblemRow]) -> Described:
    """Return what the result of a bench will describe.

    Raises:
        UsageError: a problem comes twice, or a file of mutations cannot be used.
        BadProblemError: one of the problems is not valid.
        ServerError: no evaluation server answers.
    """
    found = problem_set(problems)
    keys: dict[str, str] = {}
    for problem in problems:
        key = problem.to_problem().key
        if key in keys:
            raise UsageError(
                f"The problems {keys[key]} and {problem.name} have the same source.", "Remove one of them."
            )
        keys[key] = problem.name
    return Described(name, settings_of(config, judging_settings(config)), problems, found, config.prices)


def run_bench(
    config: BenchConfig, described: Described, output: Path, *, console: Console | None = None
) -> list[SearchOutcome]:
    """Make all attempts that are not recorded yet; the caller holds `output`.

    Args:
        config: the settings.
        described: what the result will describe.
        output: the run directory.
        console: receives progress; stderr by default.

    Returns:
        The outcome of every search, by problem and sample.

    Raises:
        UsageError: `output` has attempts under other settings or of other problems.
        FinalEndpointError: the endpoint cannot be used. What is recorded stays.
        EvaluatorError: no evaluator is available.
        BenchStoppedError: interrupted from the keyboard.
    """
    _check_same(output, described)
    # Loaded before anything is started.
    scorer_for(config.reward)
    make_strategy(config.strategy)
    try:
        asyncio.run(_check_endpoint(config))
        rollout = RolloutConfig(evaluation=config.evaluation, evaluate_timeout_s=config.evaluate_timeout_s)
        with open_evaluator(rollout, config.evaluator) as evaluator, VerdictLog(output) as log:
            _write_description(output, described)
            judge = Judge(CachedEvaluator(evaluator), log, config, described.settings["judging"])
            with RunWriter(output) as writer:
                bench = _Bench(config, described, judge, Recorder(writer, config, output.resolve().name), console)
                return asyncio.run(bench.run(recorded_attempts(output)))
    except KeyboardInterrupt:
        raise BenchStoppedError from None


async def _check_endpoint(config: BenchConfig) -> None:
    async with Endpoint(config) as endpoint:
        await endpoint.check()


def _check_same(output: Path, described: Described) -> None:
    """Refuse to mix attempts of two benches in one directory."""
    if not records_dir(output).is_dir():
        return
    about = read_json(
        output / FILE,
        UsageError,
        "description of the bench",
        "Name a directory that `bench` has written, or a new one.",
    )
    before = about if isinstance(about, dict) else {}
    changed = differing(before.get("settings") or {}, described.settings)
    if before.get("problem_set") != described.problem_set:
        changed.append("the problems")
    if changed:
        raise UsageError(
            f"{output} has attempts under other settings: {', '.join(changed)} changed.",
            "Repeat the command of before, or name a new directory with --output.",
        )


def _write_description(output: Path, described: Described) -> None:
    about = {"format": FORMAT, "settings": described.settings, "problem_set": described.problem_set}
    write_file(output / FILE, json.dumps(about, indent=2) + "\n")


@dataclass(frozen=True)
class _Bench:
    config: BenchConfig
    described: Described
    judge: Judge
    recorder: Recorder
    console: Console | None

    async def run(self, recorded: Mapping[str, Mapping[int, RecordedAttempt]]) -> list[SearchOutcome]:
        """Run all searches, at most as many at once as requests; return their outcomes in order."""
        names = [
            SearchName(problem, sample) for problem in self.described.problems for sample in range(self.config.samples)
        ]
        outcomes: dict[int, SearchOutcome] = {}
        waiting = iter(enumerate(names))
        with Reporter(len(names), "searches", self.console) as reporter:
            if recorded:
                attempts = sum(map(len, recorded.values()))
                of = counted(len(recorded), "search", "searches")
                reporter.note(f"recorded already: {counted(attempts, 'attempt')} of {of}")
            async with Endpoint(self.config, reporter.note) as endpoint:
                parts = self._parts(endpoint)

                async def work() -> None:
                    for place, name in waiting:
                        outcome = await run_search(parts, name, recorded.get(name.trajectory, {}))
                        outcomes[place] = outcome
                        reporter.done(str(name), in_words(outcome), known=outcome.known)

                # One search keeps at least one request busy.
                workers = min(self.config.endpoint.in_flight, len(names))
                await all_or_first_error([work() for _ in range(workers)])
        return [outcomes[place] for place in range(len(names))]

    def _parts(self, endpoint: Endpoint) -> SearchParts:
        config = self.config
        return SearchParts(
            config=config,
            endpoint=endpoint,
            judge=self.judge,
            strategy=make_strategy(config.strategy),
            prompter=Prompter(config),
            recorder=self.recorder,
            scorer=scorer_for(config.reward),
            on_lost=_Losses(config.endpoint.give_up_after).see,
        )


def in_words(outcome: SearchOutcome) -> str:
    """Return a search's end in a few words."""
    if not outcome.scored:
        return f"{outcome.ended}: {outcome.reason}"
    best = outcome.best
    if best is None:
        return f"no attempt ({outcome.ended})"
    tokens = sum(attempt.tokens for attempt in outcome.attempts)
    spent = f"{counted(len(outcome.attempts), 'attempt')}, {counted(tokens, 'token')}"
    # The status comes first, since a progress bar cuts the line off.
    status, colon, cause = verdict_in_words(best.verdict).partition(": ")
    return f"{status} after {spent} ({outcome.ended}){colon}{cause}"
