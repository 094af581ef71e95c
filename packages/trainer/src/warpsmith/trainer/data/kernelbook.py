"""Turns KernelBook's pairs into chats of the task: the module as `Model` in the prompt, the kernels as `ModelNew`."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from warpsmith.rollout.datasets import ProblemRow
from warpsmith.rollout.datasets.kernelbook import as_task
from warpsmith.rollout.datasets.row_files import Row, stream_rows
from warpsmith.rollout.prompts import PromptStyle, build_prompt
from warpsmith.trainer.config.sources import KernelbookSource
from warpsmith.trainer.data.generated import answer_text
from warpsmith.trainer.data.sample import BadRow, Message, Refusal, Sample
from warpsmith.trainer.errors import DataError

_COLUMNS = ("entry_point", "python_code", "triton_code")


def read_kernelbook(section: KernelbookSource, files: Sequence[Path]) -> Iterator[Sample | Refusal]:
    """Yield a sample, or the reason why there is none, for each row of files with KernelBook's columns.

    Raises:
        DataError: a file as a whole cannot be read.
    """
    for file in files:
        for place, row in stream_rows(file, _COLUMNS, DataError):
            yield row if isinstance(row, Refusal) else _sample(row, section.prompt_style, place)


def _sample(row: Row, style: PromptStyle, place: str) -> Sample | Refusal:
    try:
        module, kernels = as_task(row)
    except BadRow as bad:
        return bad.at(place)
    prompt = build_prompt(ProblemRow("kernelbook", module, None, "kernelbook"), style=style)
    messages: list[Message] = [*prompt, {"role": "assistant", "content": answer_text(kernels, style)}]
    return Sample(messages, module, place)
