"""Which rows of a data set to keep: no benchmark problems, no duplicates and no unverified kernels."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from warpsmith.evaluator import Evaluator
from warpsmith.evaluator.bench.progress import Reporter
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.errors import EvaluatorError, IsolationUnavailableError, JudgeUnavailableError
from warpsmith.records.errors import UsageError
from warpsmith.records.text import stream_lines
from warpsmith.rollout.datasets.computation import SEEDS, Computation, compute
from warpsmith.rollout.datasets.formats import Entry
from warpsmith.rollout.datasets.normal_form import exact_problem_form, kernel_form, problem_form
from warpsmith.rollout.datasets.registry import Dataset
from warpsmith.rollout.datasets.verification import Outcomes
from warpsmith.rollout.errors import DatasetError

COMPUTED: Final = "computed.jsonl"
FORMAT: Final = 1


@dataclass(frozen=True)
class Removal:
    """Why a row is removed.

    Attributes:
        reason: `verdict`, `benchmark: same code`, `benchmark: same computation`, `repeated: same code` or
            `repeated: same computation`.
        of: the problem of the benchmark, the earlier row, or the status of the verdict.
    """

    reason: str
    of: str


@dataclass
class Cleaning:
    """The result.

    Attributes:
        kept: the rows to keep, in order.
        removed: the other rows, in order.
        not_computed: why problems could not be compared by what they compute, with how many.
    """

    kept: list[Entry] = field(default_factory=list)
    removed: list[tuple[Entry, Removal]] = field(default_factory=list)
    not_computed: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Benchmarks:
    """Problems that must not be in a training set.

    Args:
        datasets: where they come from.
    """

    datasets: Sequence[Dataset]

    @property
    def sources(self) -> dict[str, str]:
        """The sources of all problems, by name."""
        return {entry.name: entry.problem for dataset in self.datasets for entry in dataset.entries}

    def by_form(self) -> dict[str, str]:
        """Return a problem's name for each form of its code, independent of sizes."""
        return {
            problem_form(source): entry.name
            for dataset in self.datasets
            for entry in dataset.entries
            for source in (entry.problem, *entry.others)
        }


Computations = Mapping[str, Computation]
"""What is known about a problem by running it, by the key of the problem."""


def computations(
    entries: Iterable[Entry],
    known: Mapping[str, str],
    output: Path,
    config: EvaluatorConfig,
    console: Console | None = None,
) -> Computations:
    """Run every problem once, several at a time. Results are appended to a file of `output`, and reused from there.

    Args:
        entries: rows; each distinct problem is run.
        known: sources of the problems to compare with, by name.
        output: the folder.
        config: of the evaluator, which runs `slots` problems at once.
        console: receives progress; stderr by default.

    Raises:
        UsageError: the file of results belongs to other known problems.
        EvaluatorError: no evaluator is available. Finished results stay recorded.
    """
    problems = {entry.problem_key: entry for entry in entries}
    log = _Log(output / COMPUTED, known)
    waiting = [entry for key, entry in problems.items() if key not in log.found]
    with Reporter(len(waiting), "problems", console) as reporter:
        if log.found:
            reporter.note(f"{len(problems) - len(waiting):,} problems have been run already; {len(waiting):,} remain.")
        if waiting:
            with Evaluator(config) as evaluator:
                _compute_all(waiting, known, evaluator, log, reporter)
    return log.found


def _compute_all(
    entries: Sequence[Entry], known: Mapping[str, str], evaluator: Evaluator, log: "_Log", reporter: Reporter
) -> None:
    pool = ThreadPoolExecutor(evaluator.config.slots, "compute")
    try:
        running = {pool.submit(_computed, evaluator, entry, known): entry for entry in entries}
        for future in as_completed(running):
            entry, computation = running[future], future.result()
            log.append(entry.problem_key, computation)
            reporter.done(entry.name, _in_words(computation))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _computed(evaluator: Evaluator, entry: Entry, known: Mapping[str, str]) -> Computation:
    try:
        return compute(evaluator, entry.problem, known)
    except (IsolationUnavailableError, JudgeUnavailableError):
        raise
    except EvaluatorError as error:
        # Lost, not refused: the next command tries it again.
        return Computation(reason=f"{_LOST}{error.message}")


_LOST: Final = "the evaluator failed: "


def _in_words(computation: Computation) -> str:
    if computation.reason:
        return f"not comparable: {computation.reason[:120]}"
    return f"computes the same as {', '.join(computation.same_as)}" if computation.same_as else "like no known problem"


class _Log:
    """Computations by problem in a file of JSON lines, each appended as soon as it is known."""

    def __init__(self, path: Path, known: Mapping[str, str]) -> None:
        self._path = path
        self._about = {"format": FORMAT, "known": exact_digest(known), "seeds": list(SEEDS)}
        self.found: dict[str, Computation] = {}
        if path.exists() and path.stat().st_size:
            self._read()
        else:
            path.write_text(json.dumps(self._about) + "\n", encoding="utf-8")

    def append(self, key: str, computation: Computation) -> None:
        """Record a computation, unless the evaluator failed."""
        self.found[key] = computation
        if not computation.reason.startswith(_LOST):
            with self._path.open("ab") as file:
                file.write(json.dumps({"key": key, **computation.to_record()}).encode() + b"\n")

    def _read(self) -> None:
        lines = [line for line in stream_lines(self._path, UsageError) if line.endswith(b"\n")]
        # A kill left a partial line: remove it before appending.
        with self._path.open("r+b") as file:
            file.truncate(sum(map(len, lines)))
        remedy = f"Remove {self._path} to run the problems again, or name another folder with --output."
        try:
            about, *rows = [json.loads(line) for line in lines]
            if about != self._about:
                raise UsageError(f"{self._path} compares with other problems than --against.", remedy)
            self.found = {row["key"]: Computation.from_record(row) for row in rows}
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{self._path} is damaged: {error}.", remedy) from error


def exact_digest(known: Mapping[str, str]) -> str:
    """Return a digest of names and sources."""
    return hashlib.sha256(json.dumps(sorted(known.items())).encode()).hexdigest()[:32]


def clean(
    dataset: Dataset,
    benchmarks: Benchmarks,
    *,
    computed: Computations | None = None,
    verdicts: Outcomes | None = None,
    statuses: Sequence[str] = ("correct",),
) -> Cleaning:
    """Decide on every row: its verdict, then the benchmark, then earlier rows that are kept.

    Args:
        dataset: the rows.
        benchmarks: problems to remove.
        computed: what problems compute; only code is compared if None.
        verdicts: verdicts on the kernels; if given, kernels without one of `statuses` are removed.
        statuses: see `verdicts`.

    Raises:
        DatasetError: no row is left.
    """
    rules = _Rules(benchmarks.by_form(), computed or {}, verdicts, frozenset(statuses))
    found = Cleaning()
    for entry in dataset.entries:
        removal = rules.removal(entry)
        if removal is None:
            found.kept.append(entry)
        else:
            found.removed.append((entry, removal))
    known = [(computed or {}).get(key) for key in {entry.problem_key for entry in dataset.entries}]
    found.not_computed.update(one.reason for one in known if one is not None and one.reason)
    if not found.kept:
        reasons = Counter(removal.reason for _, removal in found.removed)
        counts = ", ".join(f"{reason} {count:,}" for reason, count in reasons.most_common())
        raise DatasetError(
            f"No row of {dataset.path} is left: {counts}.",
            "It consists of the benchmark's problems, or nothing in it is verified: use another data set, or fewer "
            "problems with --against.",
        )
    return found


@dataclass
class _Rules:
    """Decides on one row after another."""

    benchmark: Mapping[str, str]
    computed: Computations
    verdicts: Outcomes | None
    statuses: frozenset[str]

    def __post_init__(self) -> None:
        self._codes: dict[tuple[str, str], str] = {}
        self._computations: dict[tuple[Any, ...], list[tuple[Computation, str]]] = {}

    def removal(self, entry: Entry) -> Removal | None:
        """Return why a row is removed; None to keep it."""
        steps: tuple[Callable[[Entry], Iterator[Removal]], ...] = (self._by_verdict, self._known, self._repeated)
        return next((removal for step in steps for removal in step(entry)), None)

    def _by_verdict(self, entry: Entry) -> Iterator[Removal]:
        if self.verdicts is None or entry.kernel is None:
            return
        outcome = self.verdicts.get(entry.key)
        status = outcome.status if outcome else "none"
        if status not in self.statuses:
            yield Removal("verdict", status)

    def _known(self, entry: Entry) -> Iterator[Removal]:
        for source in (entry.problem, *entry.others):
            if name := self.benchmark.get(_form(problem_form, source)):
                yield Removal("benchmark: same code", name)
        computation = self.computed.get(entry.problem_key)
        if computation is not None and computation.same_as:
            yield Removal("benchmark: same computation", computation.same_as[0])

    def _repeated(self, entry: Entry) -> Iterator[Removal]:
        kernel = _form(kernel_form, entry.kernel) if entry.kernel is not None else ""
        code = _form(exact_problem_form, entry.problem), kernel
        if code in self._codes:
            yield Removal("repeated: same code", self._codes[code])
        computation = self.computed.get(entry.problem_key)
        alike: list[tuple[Computation, str]] = []
        if computation is not None and computation.samples:
            alike = self._computations.setdefault((kernel, computation.shapes), [])
            for earlier, place in alike:
                if computation.equals(earlier):
                    yield Removal("repeated: same computation", place)
        self._codes[code] = entry.place
        if computation is not None and computation.samples:
            alike.append((computation, entry.place))


def _form(form: Callable[[str], str], source: str) -> str:
    """Return a form of the code; the code itself where it is not Python."""
    try:
        return form(source)
    except UsageError:
        return source
