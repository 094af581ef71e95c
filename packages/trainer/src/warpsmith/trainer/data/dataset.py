"""The examples of a run, opened on every rank and split into training and held-out examples."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from warpsmith.policy.chat import ChatFormat
from warpsmith.trainer.config.sft import SftConfig
from warpsmith.trainer.data.build import build
from warpsmith.trainer.data.held_out_examples import held_out
from warpsmith.trainer.data.mixture import Mixture
from warpsmith.trainer.data.store import TokenStore
from warpsmith.trainer.distributed.rows import Row
from warpsmith.trainer.errors import DataError
from warpsmith.trainer.telemetry.progress_bar import Bar

if TYPE_CHECKING:
    from warpsmith.trainer.distributed.ranks import Ranks

FOLDER = "examples"
"""Name in the run's directory."""


@dataclass(frozen=True)
class SftData:
    """The examples of a run.

    Attributes:
        store: all of them.
        order: hands out the training examples.
        evaluation: held-out examples by the name of their source; sources without any are omitted.
    """

    store: TokenStore
    order: Mixture
    evaluation: dict[str, list[int]]

    def rows(self, examples: list[int]) -> list[Row]:
        """Return examples as rows of tokens."""
        return [self.store.row(example) for example in examples]

    @property
    def epoch_tokens(self) -> int:
        """Tokens of the first epoch."""
        return int(self.store.lengths[self.order.taken(0, len(self.order))].sum())


def open_data(config: SftConfig, chat: ChatFormat, ranks: "Ranks", *, resume: bool) -> SftData:
    """Encode the sources on rank 0, or take the examples of the run to be resumed; collective.

    Raises:
        DataError, NoRecordsError, SegmentError: a source cannot be read, or leaves no training examples.
        DataWriteError: the disk is full or refuses to write.
        CheckpointError: the run to be resumed has lost its examples, or they are damaged.
    """
    folder = config.run.dir / FOLDER
    if ranks.drives and not resume:
        encode_sources(config, chat, folder)
    ranks.barrier()
    data = arrange(TokenStore.open(folder, check=ranks.drives and resume), config)
    ranks.barrier()
    return data


def encode_sources(config: SftConfig, chat: ChatFormat, folder: Path) -> TokenStore:
    """Encode the sources into `folder`, with a progress bar for each; errors as for `open_data`."""
    bars: dict[str, Bar] = {}
    with ExitStack() as shown:

        def watch(label: str, done: int, expected: int) -> None:
            if label not in bars:
                shown.close()
                bars[label] = shown.enter_context(Bar(f"read {label}", max(expected, done)))
            # The total is an estimate; print a line occasionally, not one per row.
            bars[label].total = max(bars[label].total, done + 1)
            bars[label].advance(to=done)

        return build(config.data, chat, config.run.seed, folder, watch)


def arrange(store: TokenStore, config: SftConfig) -> SftData:
    """Hold out the evaluation's problems, and order the others.

    Raises:
        DataError: every example is held out.
    """
    data = config.data
    held = held_out(store.problem, data.eval_examples, config.run.seed)
    if held.all():
        raise DataError(
            f"{len(store):,} examples of {len(np.unique(store.problem)):,} problems leave none to train on: "
            f"{data.eval_examples} must be held out, with all others of their problems.",
            "Lower data.eval_examples, or add examples of more problems.",
        )
    trained = [np.flatnonzero(~held & (store.source == number)) for number in range(len(data.parts))]
    evaluated = {
        label: np.flatnonzero(held & (store.source == number)).tolist() for number, label in enumerate(data.labels)
    }
    order = Mixture(trained, [part.weight for part in data.parts], config.run.seed)
    return SftData(store, order, {label: examples for label, examples in evaluated.items() if examples})


def report_counts(data: SftData, say: Callable[[str], None]) -> None:
    """Report the counts of each source, and what is trained."""
    for tally in data.store.tallies:
        for line in tally.lines():
            say(line)
    held = sum(map(len, data.evaluation.values()))
    say(f"One epoch has {len(data.order):,} examples, {data.epoch_tokens:,} tokens; {held:,} are held out.")
