"""Opens the source that a table of the configuration names."""

from collections.abc import Iterator

from warpsmith.records.reader import RunReader
from warpsmith.trainer.config.sft import SftDataSection
from warpsmith.trainer.config.sources import ChatsSource, GeneratedSource, KernelbookSource, RecordsSource, Source
from warpsmith.trainer.data.chats import read_chats
from warpsmith.trainer.data.files import count_rows, find_files
from warpsmith.trainer.data.generated import read_generated
from warpsmith.trainer.data.kernelbook import read_kernelbook
from warpsmith.trainer.data.records import count_turns, read_records
from warpsmith.trainer.data.sample import Refusal, Sample


def read_source(section: Source, seed: int) -> Iterator[Sample | Refusal]:
    """Yield a sample, or why there is none, for each row of a source, always in the same order.

    Args:
        section: names the source.
        seed: of generated problems.

    Raises:
        DataError: a file is not there or cannot be read.
        NoRecordsError, SegmentError: the same for a run.
    """
    match section:
        case ChatsSource():
            return read_chats(section, find_files(section.path))
        case KernelbookSource():
            return read_kernelbook(section, find_files(section.path))
        case RecordsSource():
            return read_records(section)
        case GeneratedSource():
            return read_generated(section, seed)


def count_source(section: Source) -> int:
    """Return about how many rows a source has; errors as for `read_source`."""
    match section:
        case RecordsSource():
            return count_turns(section)
        case GeneratedSource():
            return section.problems
        case ChatsSource() | KernelbookSource():
            return sum(map(count_rows, find_files(section.path)))


def check_sources(data: SftDataSection) -> None:
    """Refuse files and runs that are not there, before anything starts; errors as for `read_source`."""
    for part in data.parts:
        if isinstance(part, RecordsSource):
            for run in part.path:
                RunReader(run)
        elif not isinstance(part, GeneratedSource):
            find_files(part.path)
