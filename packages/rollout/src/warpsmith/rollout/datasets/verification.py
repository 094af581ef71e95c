"""Judges the kernels of a data set with the evaluator, and records each verdict as it comes.

The verdicts are turns of a run, of the role `dataset`, so that summaries, reports, exports and SFT read them like those
of a policy. A kernel is one trajectory of one turn, named by a hash of problem, kernel and language; a resumed command
recognizes by these names what has a verdict.
"""

import asyncio
import json
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from rich.console import Console

from warpsmith.evaluator.bench.progress import Reporter
from warpsmith.evaluator.bench.settings import local_settings
from warpsmith.evaluator.client.interface import AsyncEvaluator
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.recordings.library_policy import OperatorPolicy
from warpsmith.evaluator.verdict import Verdict, invalid
from warpsmith.records.errors import UsageError, WarpsmithError
from warpsmith.records.folders import write_file
from warpsmith.records.layout import records_dir
from warpsmith.records.reader import RunReader
from warpsmith.records.schema import turns_batch
from warpsmith.records.text import read_json
from warpsmith.records.writer import RunWriter
from warpsmith.rollout import retries
from warpsmith.rollout.config import RayEvaluation, ServerEvaluation, SessionConfig
from warpsmith.rollout.datasets.formats import Entry, Language
from warpsmith.rollout.datasets.registry import Dataset
from warpsmith.rollout.deadlines import QueueState, within_phases
from warpsmith.rollout.errors import DeadlinePassedError
from warpsmith.rollout.evaluators.open import open_evaluator
from warpsmith.rollout.prompts import Message, build_prompt
from warpsmith.rollout.rewards.registry import scorer_for
from warpsmith.rollout.rewards.score import Score
from warpsmith.rollout.samplers.base import Sampling
from warpsmith.rollout.turn_recording import EpisodeLabels, TurnRecord, TurnRow, turn_row

ROLE: Final = "dataset"
TASK: Final = "verify"
FILE: Final = "verify.json"
REFUSED: Final = "problem: "
"""Beginning of the reason of a turn whose problem the evaluator refuses."""
FORMAT: Final = 1
AT_ONCE_PER_SERVER: Final = 8
_UNSAMPLED: Final = Sampling(temperature=0.0, max_tokens=0)


@dataclass(frozen=True)
class Outcome:
    """What is known about a kernel.

    Attributes:
        status: the status of its verdict; `refused` if the problem cannot be judged.
        speedup: measured, or None.
        detail: category and message of its error, or why the problem is refused; may be empty.
    """

    status: str
    speedup: float | None = None
    detail: str = ""

    @property
    def settled(self) -> bool:
        """Whether the result is final: all but `invalid`, which is the evaluator's own failure."""
        return self.status != "invalid"


Outcomes = Mapping[str, Outcome]
"""Outcomes by the key of an entry."""


class VerificationStoppedError(Exception):
    """The verification was interrupted; finished verdicts are recorded."""


def settings_of(config: SessionConfig) -> dict[str, Any]:
    """Return what verdicts depend on. Servers have their own settings, so only what is requested of them is known."""
    if isinstance(config.evaluation, ServerEvaluation):
        asked = config.evaluator.model_dump(mode="json", include={"trials", "timeout_s", "minimum_isolation"})
        return {"judge": "servers", **asked}
    return {name: value for name, value in local_settings(config.evaluator).items() if name != "language"}


def verify(
    dataset: Dataset, output: Path, config: SessionConfig, *, workers: int | None = None, console: Console | None = None
) -> Outcomes:
    """Judge every kernel that has no verdict yet; the caller holds `output` by `owned`.

    Args:
        dataset: the rows; those without a kernel are left out.
        output: the run directory for the verdicts.
        config: where and how kernels are judged.
        workers: kernels judged at once; None for as many as the evaluators have slots.
        console: receives progress; stderr by default.

    Returns:
        The outcomes of all kernels.

    Raises:
        UsageError: `output` has verdicts under other settings, or servers are to judge several languages.
        EvaluatorError: no evaluator is available. Finished verdicts stay recorded.
        VerificationStoppedError: interrupted from the keyboard.
    """
    entries = {entry.key: entry for entry in dataset.entries if entry.kernel is not None}
    _check_settings(output, settings_of(config))
    known = outcomes_in(output)
    waiting = [entry for key, entry in entries.items() if not (key in known and known[key].settled)]
    check_languages(waiting, config)
    with Reporter(len(waiting), "kernels", console) as reporter:
        if known:
            reporter.note(f"{len(entries) - len(waiting):,} kernels have a verdict already; {len(waiting):,} remain.")
        try:
            _judge_all(waiting, _Recorder(dataset, output, config, reporter), workers)
        except KeyboardInterrupt:
            raise VerificationStoppedError from None
    found = outcomes_in(output)
    return {key: found[key] for key in entries if key in found}


def outcomes_in(output: Path) -> dict[str, Outcome]:
    """Return the recorded outcomes of a folder; none if it has no records.

    Raises:
        SegmentError: the records are damaged.
    """
    if not records_dir(output).is_dir():
        return {}
    columns = ["trajectory", "verdict", "invalid_reason"]
    found: dict[str, Outcome] = {}
    for batch in RunReader(output).batches("turns", columns=columns, latest=True):
        for row in batch.to_pylist():
            found[row["trajectory"].rpartition("/")[2]] = _outcome(row["verdict"], row["invalid_reason"] or "")
    return found


def _outcome(verdict: Mapping[str, Any] | None, reason: str) -> Outcome:
    if reason.startswith(REFUSED):
        return Outcome("refused", None, reason.removeprefix(REFUSED))
    if verdict is None:
        return Outcome("invalid", None, reason)
    detail = [verdict["error_category"] or "", verdict["error_message"] or ""]
    return Outcome(verdict["status"], verdict["speedup"], ": ".join(filter(None, detail)))


def _check_settings(output: Path, settings: Mapping[str, Any]) -> None:
    if not records_dir(output).is_dir():
        return
    path = output / FILE
    about = read_json(path, UsageError, remedy="Name a folder that `verify` has written, or a new one.")
    before = about.get("settings") if isinstance(about, dict) else None
    if before != dict(settings):
        names = sorted(set(before or {}) | set(settings))
        other = [name for name in names if (before or {}).get(name) != settings.get(name)]
        raise UsageError(
            f"{output} has verdicts under other settings: {', '.join(other)} changed.",
            "Repeat the settings of before, or name a new folder with --output.",
        )


def at_once(config: SessionConfig, workers: int | None) -> int:
    """Return how many kernels are judged at once."""
    match config.evaluation:
        case RayEvaluation() as ray:
            return workers or ray.actors * ray.cores
        case ServerEvaluation() as servers:
            return workers or AT_ONCE_PER_SERVER * len(servers.servers)
        case _:
            return workers or config.evaluator.slots


def _evaluator_of(language: Language, config: SessionConfig, workers: int | None) -> EvaluatorConfig:
    """Return the configuration of the evaluator of one kernel language; servers must judge that language."""
    slots = {"slots": workers} if workers and config.evaluation.type == "process" else {}
    return config.evaluator.model_copy(update={"language": language, **slots})


def check_languages(entries: Iterable[Entry], config: SessionConfig) -> None:
    """Refuse kernels in several languages for evaluation servers, before the first one is judged.

    Raises:
        UsageError: it says how to judge them one language at a time.
    """
    languages = {entry.language for entry in entries}
    if isinstance(config.evaluation, ServerEvaluation) and len(languages) > 1:
        raise UsageError(
            f"The data set has kernels in {' and '.join(sorted(languages))}, and a server judges one language.",
            "Judge one language at a time, each in a directory of its own: --backend triton, then --backend cuda with "
            "servers that were started with --backend cuda.",
        )


def _judge_all(entries: Sequence[Entry], recorder: "_Recorder", workers: int | None) -> None:
    """Judge entries, one kernel language after another."""
    config = recorder.config
    with recorder:
        for language in sorted({entry.language for entry in entries}):
            chosen = [entry for entry in entries if entry.language == language]
            with open_evaluator(config, _evaluator_of(language, config, workers)) as judge:
                _run(_Judging(judge, config, recorder).run(chosen, at_once(config, workers)))


def _run(judging: Coroutine[Any, Any, None]) -> None:
    try:
        asyncio.run(judging)
    except* WarpsmithError as group:
        raise _first(group) from None


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


@dataclass
class _Judging:
    """Judges entries, several at once."""

    evaluator: AsyncEvaluator
    config: SessionConfig
    recorder: "_Recorder"

    async def run(self, entries: Sequence[Entry], workers: int) -> None:
        left = iter(entries)
        refused: dict[str, str] = {}

        async def work() -> None:
            for entry in left:
                await self._one(entry, refused)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(workers, len(entries))):
                tasks.create_task(work())

    async def _one(self, entry: Entry, refused: dict[str, str]) -> None:
        turn = TurnRecord(_UNSAMPLED)
        if entry.problem_key not in refused:
            try:
                turn.verdict = await self._verdict(entry)
            except BadProblemError as error:
                refused[entry.problem_key] = f"{error.message} {error.remedy}".strip()
        self.recorder.record(entry, turn, refused.get(entry.problem_key))

    async def _verdict(self, entry: Entry) -> Verdict:
        config = self.config

        async def attempt() -> Verdict:
            state = QueueState()
            request = self.evaluator.evaluate_async(
                entry.as_problem(), entry.kernel or "", operators=operators_of(config), on_running=state.set
            )
            what = f"the verdict on {entry.place}"
            return await within_phases(config.evaluate_wait_s, config.evaluate_timeout_s, state, request, what)

        try:
            return await retries.with_retries(attempt, retries.for_evaluations(config.retries), retries.is_verdict)
        except DeadlinePassedError as error:
            return invalid(error.message, "timeout")


def operators_of(config: SessionConfig) -> OperatorPolicy:
    """Return what a data set's kernel may compute with torch: published ones accompany library operators."""
    return config.operators or "library"


class _Recorder:
    """Appends each outcome to the records, and reports it. A context manager.

    Args:
        dataset: the rows that are judged.
        output: the run directory; nothing is written before the first outcome.
        config: the settings.
        reporter: receives progress.
    """

    def __init__(self, dataset: Dataset, output: Path, config: SessionConfig, reporter: Reporter) -> None:
        self.config = config
        self._dataset, self._output, self._reporter = dataset, output, reporter
        self._scorer = scorer_for(config.reward)
        self._writer: RunWriter | None = None
        self._samples: dict[str, int] = {}
        counts: dict[str, int] = {}
        for entry in self._dataset.entries:
            if entry.kernel is not None and entry.key not in self._samples:
                self._samples[entry.key] = counts.get(entry.problem_key, 0)
                counts[entry.problem_key] = self._samples[entry.key] + 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()

    def record(self, entry: Entry, turn: TurnRecord, refusal: str | None) -> None:
        """Append one row; it is recorded when this returns."""
        if self._writer is None:
            self._describe()
            self._writer = RunWriter(self._output)
        self._writer.append("turns", turns_batch([self._row(entry, turn, refusal)]))
        self._reporter.done(f"{entry.name} {entry.label}".strip(), _in_words(turn.verdict))

    def _describe(self) -> None:
        """Write what the verdicts are about, before the first of them."""
        of = {"dataset": str(self._dataset.path), "type": self._dataset.type}
        about = {"format": FORMAT, **of, "settings": settings_of(self.config)}
        write_file(self._output / FILE, json.dumps(about, indent=2) + "\n")

    def _row(self, entry: Entry, turn: TurnRecord, refusal: str | None) -> TurnRow:
        source = f"dataset/{self._dataset.type}"
        group = f"{self._dataset.type}/{entry.problem_key[:12]}"
        labels = EpisodeLabels(
            self._output.resolve().name,
            TASK,
            ROLE,
            entry.as_row(source),
            group,
            self._samples[entry.key],
            after_step=None,
        )
        turn.messages = prompt_of(entry, source, operators_of(self.config))
        turn.kernel = entry.kernel
        turn.text = f"```python\n{(entry.kernel or '').strip()}\n```"
        if refusal is not None or turn.verdict is None:
            turn.score = Score(None, f"{REFUSED}{refusal}")
        else:
            turn.score = self._scorer(turn.as_turn(labels, 0, turn.verdict), ())
        row = turn_row(labels, [turn], 0)
        return row | {"trajectory": f"{group}/{entry.key}", "return": turn.score.value}


def prompt_of(entry: Entry, source: str, operators: OperatorPolicy) -> list[Message]:
    """Return the prompt that asks for an entry's kernel, in its language."""
    return build_prompt(entry.as_row(source), style="full", operators=operators, language=entry.language)


def _in_words(verdict: Verdict | None) -> str:
    if verdict is None:
        return "refused: the problem cannot be judged"
    return verdict.status if verdict.speedup is None else f"{verdict.status} {verdict.speedup:.2f}x"
