"""Counts of a source's rows: examples, and skipped rows by reason."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from warpsmith.trainer.data.sample import Refusal


@dataclass
class Tally:
    """Counts of one source.

    Attributes:
        label: its name.
        rows: number of rows read; turns for records.
        examples: number of sequences made from them; a chat may give several.
        tokens, trained: their tokens, and those that are trained.
        left_out: number of skipped rows or examples, by reason.
        first: the first one of each reason.
    """

    label: str
    rows: int = 0
    examples: int = 0
    tokens: int = 0
    trained: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)

    def refuse(self, refusal: Refusal) -> None:
        """Count a skipped row or example."""
        self.left_out[refusal.reason] = self.left_out.get(refusal.reason, 0) + 1
        detail = f": {_short(refusal.detail)}" if refusal.detail else ""
        self.first.setdefault(refusal.reason, f"{refusal.place}{detail}")

    def keep(self, tokens: int, trained: int) -> None:
        """Count an example."""
        self.examples += 1
        self.tokens += tokens
        self.trained += trained

    def lines(self) -> Iterator[str]:
        """Yield the report: the counts, then each reason with its first row."""
        out = sum(self.left_out.values())
        yield f"{self.label}: {self.rows:,} rows, {self.examples:,} examples, {self.tokens:,} tokens" + (
            f"; left out {out:,}:" if out else "."
        )
        for reason, count in sorted(self.left_out.items(), key=lambda item: -item[1]):
            yield f"  {count:,} {reason} (first: {self.first[reason]})"


def why_nothing(tallies: Sequence[Tally]) -> str:
    """Return the most frequent reason for skipping rows, with its first row, as a sentence; empty if there is none."""
    reasons = [(count, reason, tally) for tally in tallies for reason, count in tally.left_out.items()]
    if not reasons:
        return ""
    count, reason, tally = max(reasons, key=lambda found: found[0])
    return f" Most often ({count:,} of {tally.rows:,} rows of {tally.label}): {reason}; first {tally.first[reason]}."


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 160 else f"{line[:157]}..."
