"""Opens the source described by a table of the configuration."""

from collections.abc import Iterator

from warpsmith.records.reader import RunReader
from warpsmith.rollout.datasets.row_files import count_rows, find_files
from warpsmith.trainer.config.sft import SftDataSection
from warpsmith.trainer.config.sources import ChatsSource, GeneratedSource, KernelbookSource, RecordsSource, Source
from warpsmith.trainer.data.chats import read_chats
from warpsmith.trainer.data.generated import read_generated
from warpsmith.trainer.data.kernelbook import read_kernelbook
from warpsmith.trainer.data.records import count_turns, read_records
from warpsmith.trainer.data.sample import Refusal, Sample
from warpsmith.trainer.errors import DataError


def read_source(section: Source, seed: int) -> Iterator[Sample | Refusal]:
    """Yield a sample, or the reason why there is none, for each row of a source, always in the same order.

    Args:
        section: the source.
        seed: seed of generated problems.

    Raises:
        DataError: a file is missing or cannot be read.
        NoRecordsError, SegmentError: the same for a run.
    """
    match section:
        case ChatsSource():
            return read_chats(section, find_files(section.path, DataError))
        case KernelbookSource():
            return read_kernelbook(section, find_files(section.path, DataError))
        case RecordsSource():
            return read_records(section)
        case GeneratedSource():
            return read_generated(section, seed)


def count_source(section: Source) -> int:
    """Estimate how many rows a source has; errors as for `read_source`."""
    match section:
        case RecordsSource():
            return count_turns(section)
        case GeneratedSource():
            return section.problems
        case ChatsSource() | KernelbookSource():
            return sum(count_rows(file, DataError) for file in find_files(section.path, DataError))


def check_sources(data: SftDataSection) -> None:
    """Check that files and runs exist, before anything starts; errors as for `read_source`."""
    for part in data.parts:
        if isinstance(part, RecordsSource):
            for run in part.path:
                RunReader(run)
        elif not isinstance(part, GeneratedSource):
            find_files(part.path, DataError)
