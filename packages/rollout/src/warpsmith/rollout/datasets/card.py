"""The card of a cleaned data set: where it comes from, what was removed and why, and with which versions."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from warpsmith.rollout._version import __version__
from warpsmith.rollout.datasets.cleaning import Benchmarks, Cleaning
from warpsmith.rollout.datasets.formats import DatasetReader
from warpsmith.rollout.datasets.registry import Dataset

_MEANINGS: Mapping[str, str] = {
    "verdict": "the kernel has no accepted verdict",
    "benchmark: same code": "a problem of the benchmark, up to names and sizes",
    "benchmark: same computation": "computes the same as a problem of the benchmark, on the same inputs",
    "repeated: same code": "an earlier row has the same problem and kernel, up to names",
    "repeated: same computation": "an earlier row computes the same, with the same kernel",
}


@dataclass(frozen=True)
class Card:
    """What a card says.

    Args:
        dataset: the rows that were read.
        reader: its type.
        benchmarks: what was removed from it.
        cleaning: the result.
        root: the output folder.
        computed: whether problems were also compared by what they compute.
        verdicts: the run directory with the verdicts, or None.
        statuses: the accepted verdicts.
        files: the written files of rows.
    """

    dataset: Dataset
    reader: DatasetReader
    benchmarks: Benchmarks
    cleaning: Cleaning
    root: Path
    computed: bool
    verdicts: Path | None = None
    statuses: Sequence[str] = ()
    files: Sequence[Path] = ()

    def text(self) -> str:
        """Return the card as Markdown."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        kept, removed = self.cleaning.kept, self.cleaning.removed
        problems = len({entry.problem_key for entry in kept})
        yield f"# {self.dataset.path.name}, cleaned"
        yield ""
        yield f"{len(kept):,} rows with {problems:,} problems, of type `{self.dataset.type}`: {self.reader.title}."
        yield from self._sources()
        yield from self._counts(Counter(removal.reason for _, removal in removed))
        yield from self._levels()
        yield from self._columns()
        yield from self._versions()

    def _sources(self) -> Iterator[str]:
        yield from ("", "## Sources", "")
        read = len(self.dataset.entries) + len(self.dataset.refusals)
        yield f"- `{self.dataset.path}`, type `{self.dataset.type}`: {read:,} rows"
        for benchmark in self.benchmarks.datasets:
            yield f"- removed: the {len(benchmark.entries):,} problems of `{benchmark.path}`, type `{benchmark.type}`"
        if self.verdicts is not None:
            yield f"- verdicts: `{self.verdicts}`; kept are kernels that are {' or '.join(self.statuses)}"

    def _counts(self, reasons: Counter[str]) -> Iterator[str]:
        yield from ("", "## Rows", "", "| | rows | |", "| --- | --- | --- |")
        yield f"| kept | {len(self.cleaning.kept):,} | |"
        for reason in _MEANINGS:
            yield f"| {reason} | {reasons[reason]:,} | {_MEANINGS[reason]} |"
        yield f"| unusable | {len(self.dataset.refusals):,} | listed in `unusable.jsonl` |"
        yield ""
        if self.computed:
            lost = self.cleaning.not_computed.total()
            yield (
                "Problems were compared by their code and by what they compute. "
                f"{lost:,} could not be run or do not depend on their inputs; these were compared by code alone."
            )
        else:
            yield "Problems were compared by their code alone."

    def _levels(self) -> Iterator[str]:
        levels = Counter(entry.level for entry in self.cleaning.kept if entry.level is not None)
        if levels:
            yield from ("", "| level | rows kept |", "| --- | --- |")
            yield from (f"| {level} | {count:,} |" for level, count in sorted(levels.items()))

    def _columns(self) -> Iterator[str]:
        yield from ("", "## Columns", "", "All columns of the source are kept. These are read:", "")
        yield from ("| column | type | meaning |", "| --- | --- | --- |")
        for column in self.reader.schema:
            yield f"| `{column.name}` | {column.type} | {column.meaning} |"
        yield ""
        yield from (f"- `{file.relative_to(self.root)}`" for file in self.files[:20])
        if len(self.files) > 20:
            yield f"- and {len(self.files) - 20:,} more files"
        yield "- `removed.jsonl`: each removed row with its reason and what it equals"

    def _versions(self) -> Iterator[str]:
        yield from ("", "## Versions", "")
        yield f"- written by `warpsmith-rollout clean` {__version__} on {datetime.now(UTC):%Y-%m-%d}"
        yield f"- warpsmith-evaluator {version('warpsmith-evaluator')}, torch {version('torch')}"
