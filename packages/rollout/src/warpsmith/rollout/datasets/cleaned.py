"""Writes a cleaned data set: the kept rows, the removed ones with reasons, and last the card."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Final

from warpsmith.records.errors import UsageError
from warpsmith.records.folders import new_directory, write_file
from warpsmith.rollout.datasets.card import Card
from warpsmith.rollout.datasets.cleaning import COMPUTED, Cleaning
from warpsmith.rollout.datasets.kept_rows import write_kept
from warpsmith.rollout.datasets.output_folder import LOCK

README: Final = "README.md"
DATA: Final = "data"
REMOVED: Final = "removed.jsonl"
UNUSABLE: Final = "unusable.jsonl"
_OWN: Final = frozenset({DATA, REMOVED, UNUSABLE, COMPUTED, LOCK})


def check_unfinished(output: Path) -> None:
    """Check that a folder is empty, or was left by a command that was stopped; UsageError otherwise."""
    others = sorted(path.name for path in output.iterdir() if path.name not in _OWN and not path.name.startswith("."))
    if others:
        raise UsageError(
            f"{output} holds other files, such as {others[0]}.", "Name another folder with --output, or empty this one."
        )


def write(card: Card) -> str:
    """Write everything; a folder without README.md is unfinished. Return the counts in words.

    Raises:
        DatasetError: a file of the data set can no longer be read.
        OutputError: the operating system refused to write.
    """
    output, dataset, cleaning = card.root, card.dataset, card.cleaning
    folder = output / DATA
    shutil.rmtree(folder, ignore_errors=True)
    with new_directory(folder) as unfinished:
        files = [file.relative_to(unfinished) for file in write_kept(cleaning.kept, dataset.path, unfinished)]
    removed = [
        {"place": entry.place, "label": entry.label, "problem": entry.name, "reason": why.reason, "of": why.of}
        for entry, why in cleaning.removed
    ]
    unusable = [{"place": one.place, "reason": one.reason, "detail": one.detail} for one in dataset.refusals]
    for name, rows in ((REMOVED, removed), (UNUSABLE, unusable)):
        write_file(output / name, "".join(json.dumps(row) + "\n" for row in rows))
    write_file(output / README, replace(card, files=[folder / file for file in files]).text())
    return _in_words(cleaning, output)


def _in_words(cleaning: Cleaning, output: Path) -> str:
    reasons = Counter(why.reason for _, why in cleaning.removed)
    lines = [f"{len(cleaning.kept):,} rows kept under {output / DATA}"]
    lines += [f"{count:,} removed, {reason}" for reason, count in reasons.most_common()]
    lines += [
        f"{count:,} problems not comparable: {reason[:160]}" for reason, count in cleaning.not_computed.most_common(3)
    ]
    return "\n".join(lines)
