"""Shows what a run would train on: counts, lengths, padding, and examples with the trained tokens marked."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from warpsmith.policy.chat import ChatFormat
from warpsmith.trainer.config.sft import SftConfig
from warpsmith.trainer.data.dataset import SftData
from warpsmith.trainer.distributed.micro_batches import micro_batches, padding_share
from warpsmith.trainer.distributed.rows import Row

OPEN, CLOSE = "⟦", "⟧"
"""Brackets around trained tokens."""

_BARS, _WIDTH = 10, 40
_UPDATES = 50
"""Number of updates over which padding is computed."""


def report(data: SftData, config: SftConfig, chat: ChatFormat, examples: int, *, colour: bool) -> Iterator[str]:
    """Yield the lines of the report.

    Args:
        data: the training data.
        config: the run's configuration.
        chat: decodes the tokens.
        examples: number of examples to show, in training order.
        colour: mark the trained tokens by colour as well as by brackets.
    """
    for tally in data.store.tallies:
        yield from tally.lines()
    yield from _held(data)
    yield ""
    yield from _lengths(data)
    yield ""
    yield from _plan(data, config)
    for number, example in enumerate(data.order.taken(0, examples), start=1):
        yield ""
        yield from _example(data, config, chat, (number, example), colour=colour)


def _held(data: SftData) -> Iterator[str]:
    held = [example for examples in data.evaluation.values() for example in examples]
    problems = len(np.unique(data.store.problem[held])) if held else 0
    yield f"Held out: {len(held):,} examples of {problems:,} problems; none of these problems is trained."


def _lengths(data: SftData) -> Iterator[str]:
    """Yield percentiles and a histogram of the lengths, in tokens."""
    lengths = data.store.lengths
    low, middle, high = (int(value) for value in np.percentile(lengths, (10, 50, 90)))
    yield f"Tokens of an example: 10 % {low:,}, median {middle:,}, 90 % {high:,}, most {int(lengths.max()):,}"
    counts, edges = np.histogram(lengths, bins=_BARS, range=(0, int(lengths.max()) + 1))
    for count, begin, end in zip(counts, edges, edges[1:], strict=False):
        bar = "#" * -(-int(count) * _WIDTH // int(counts.max()))
        yield f"  {int(np.ceil(begin)):>7,} to {int(np.ceil(end)) - 1:>7,} {bar} {int(count):,}".rstrip()


def _plan(data: SftData, config: SftConfig) -> Iterator[str]:
    """Yield the size of an epoch and of the run, and the share of padding with and without packing."""
    batch, order = config.data.batch_size, data.order
    epoch = order.taken(0, len(order))
    trained = sum(int(data.store.row(example).mask.sum()) for example in epoch)
    share = trained / data.epoch_tokens
    updates = config.run.updates(len(order), batch)
    yield (
        f"One epoch: {len(order):,} examples, {-(-len(order) // batch):,} updates of {batch}, "
        f"{data.epoch_tokens:,} tokens, {share:.1%} of them trained."
    )
    yield f"The run: {updates:,} updates, {updates * batch / len(order):.2f} epochs."
    padded, packed = _micro_batches(data, config)
    yield (
        f"Micro-batches of {config.zero.micro_batch_tokens:,} tokens, one rank: padded {padded[0]:.1f} an update, "
        f"{padded[1]:.1%} padding; packed {packed:.1f} an update, none. zero.packing is "
        f"{'on' if config.zero.packing else 'off'}."
    )
    if len(data.store.tallies) > 1:
        yield from _mixture(data, epoch)


def _mixture(data: SftData, epoch: Sequence[int]) -> Iterator[str]:
    sources, lengths = data.store.source[list(epoch)], data.store.lengths[list(epoch)]
    for number, tally in enumerate(data.store.tallies):
        examples, tokens = float((sources == number).mean()), int(lengths[sources == number].sum())
        yield f"  {tally.label}: {examples:.1%} of the examples, {tokens / int(lengths.sum()):.1%} of the tokens"


def _micro_batches(data: SftData, config: SftConfig) -> tuple[tuple[float, float], float]:
    """Return micro-batches per update and share of padding if padded, and micro-batches per update if packed."""
    size, budget = config.data.batch_size, config.zero.micro_batch_tokens
    padded, packed, paddings = [], [], []
    for update in range(min(_UPDATES, -(-len(data.order) // size))):
        lengths = data.store.lengths[data.order.taken(update * size, size)].tolist()
        batches = micro_batches(lengths, budget)
        padded.append(len(batches))
        paddings.append(padding_share(lengths, batches))
        packed.append(len(micro_batches(lengths, budget, packed=True)))
    return (float(np.mean(padded)), float(np.mean(paddings))), float(np.mean(packed))


def _example(
    data: SftData, config: SftConfig, chat: ChatFormat, which: tuple[int, int], *, colour: bool
) -> Iterator[str]:
    number, example = which
    row, label = data.store.row(example), config.data.labels[int(data.store.source[example])]
    yield (
        f"Example {number}, {label}: {len(row):,} tokens, {int(row.mask.sum()):,} of them trained, "
        f"marked by {OPEN} {CLOSE}"
    )
    yield marked(row, chat, colour=colour)


def marked(row: Row, chat: ChatFormat, *, colour: bool = False) -> str:
    """Return a row's text, including control tokens, with brackets around each run of trained tokens."""
    edges = [0, *(np.flatnonzero(np.diff(row.mask)) + 1).tolist(), len(row)]
    parts = []
    for begin, end in pairwise(edges):
        text = chat.tokenizer.decode(row.ids[begin:end].tolist(), clean_up_tokenization_spaces=False)
        parts.append(_bracketed(str(text), colour) if row.mask[begin] else str(text))
    return "".join(parts)


def _bracketed(text: str, colour: bool) -> str:
    return f"\x1b[32m{OPEN}{text}{CLOSE}\x1b[0m" if colour else f"{OPEN}{text}{CLOSE}"
