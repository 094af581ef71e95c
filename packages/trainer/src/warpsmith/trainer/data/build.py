"""Reads every source once and encodes its examples for a policy."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from warpsmith.policy.chat import ChatFormat
from warpsmith.policy.errors import MessagesError, TemplateError
from warpsmith.policy.sft_data import Example, encode
from warpsmith.trainer.config.sft import SftDataSection
from warpsmith.trainer.config.sources import GeneratedSource, Source
from warpsmith.trainer.data.sample import Chat, Refusal, Sample
from warpsmith.trainer.data.sources import count_source, read_source
from warpsmith.trainer.data.store import StoreWriter, TokenStore, writing
from warpsmith.trainer.data.tally import Tally, why_nothing
from warpsmith.trainer.errors import DataError

Watch = Callable[[str, int, int], None]
"""Called with each row: the source's label, rows done, and about how many there are."""


def build(data: SftDataSection, chat: ChatFormat, seed: int, folder: Path, watch: Watch) -> TokenStore:
    """Encode the examples of all sources into `folder`; unusable rows are counted and skipped.

    Args:
        data: the sources, and which of their tokens are trained.
        chat: the policy's chat format.
        seed: seed of generated problems.
        folder: created, or replaced.
        watch: called with each row.

    Raises:
        DataError: a source cannot be read, or no example remains.
        NoRecordsError, SegmentError: the same for the records of a run.
        DataWriteError: the disk is full or refuses to write.
    """
    tallies = [Tally(label) for label in data.labels]
    seen: set[bytes] = set()
    with writing(folder) as store:
        for number, tally in enumerate(tallies):
            _Encoder(data, number, chat, store, tally, seen).run(seed, watch)
        store.finish(tallies)
        if not any(tally.examples for tally in tallies):
            raise _nothing(tallies)
    return TokenStore.open(folder, check=False)


def _nothing(tallies: Sequence[Tally]) -> DataError:
    rows = sum(tally.rows for tally in tallies)
    return DataError(
        f"{rows:,} rows leave no example to train on.{why_nothing(tallies)}",
        "Fix the files or the keys of [data]; `warpsmith-trainer schema sft` lists them.",
    )


@dataclass(frozen=True)
class _Encoder:
    """Encodes the source with index `number`; `seen` has the digests of all chats before it."""

    data: SftDataSection
    number: int
    chat: ChatFormat
    store: StoreWriter
    tally: Tally
    seen: set[bytes]

    @property
    def part(self) -> Source:
        return self.data.parts[self.number]

    def run(self, seed: int, watch: Watch) -> None:
        expected = count_source(self.part)
        for row in read_source(self.part, seed):
            if self._left() <= 0:
                return
            self.tally.rows += 1
            if isinstance(row, Refusal):
                self.tally.refuse(row)
            else:
                self._take(row)
            watch(self.tally.label, self.tally.rows, expected)

    def _take(self, sample: Sample) -> None:
        # The generator draws problems independently, so repetitions are part of its distribution.
        part = self.part
        if not isinstance(part, GeneratedSource) and part.deduplicate and self._repeated(sample.messages):
            self.tally.refuse(Refusal("repeated: the same messages came before", sample.place))
            return
        try:
            examples = encode(self.chat, sample.messages, train_on=self.data.train_on)
        except (MessagesError, TemplateError) as error:
            self.tally.refuse(Refusal("rejected by the policy's chat template", sample.place, error.message))
            return
        for example in examples:
            if self._left() > 0:
                self._add(example, sample)

    def _left(self) -> float:
        """Return how many examples the source may still give."""
        limit = self.part.limit or self.data.limit
        return math.inf if limit is None else limit - self.tally.examples

    def _add(self, example: Example, sample: Sample) -> None:
        if len(example) > self.data.max_tokens:
            reason = f"longer than {self.data.max_tokens} tokens (data.max_tokens)"
            self.tally.refuse(Refusal(reason, sample.place, f"{len(example):,} tokens"))
            return
        self.store.add(example, source=self.number, problem=sample.problem)
        self.tally.keep(len(example), example.trained)

    def _repeated(self, messages: Chat) -> bool:
        text = json.dumps([[message["role"], message["content"]] for message in messages])
        digest = blake2b(text.encode(), digest_size=16).digest()
        repeated = digest in self.seen
        self.seen.add(digest)
        return repeated
