"""Data sets of problems alone, and rows of a problem with a kernel under any names."""

import ast
import re
from collections.abc import Iterator
from typing import ClassVar, Final

from warpsmith.evaluator.extract import extract_kernel
from warpsmith.evaluator.parsing import parse
from warpsmith.rollout.datasets.formats import Cells, Claim, Column, DatasetReader, Entry, Language, language_in
from warpsmith.rollout.datasets.refusals import BadRow

_MOST_ATTEMPTS: Final = 200
_START: Final = re.compile(r"^(?:import|from)\s", re.MULTILINE)


class CudaAgentOpsReader(DatasetReader):
    """Problems composed of several operators, without kernels."""

    name = "cuda_agent_ops"
    title = "CUDA-Agent-Ops: composed problems in KernelBench's form, without kernels"
    schema: ClassVar = (
        Column("problem", "code", "text", "the module"),
        Column("operators", "ops", "object", "the operators that it is composed of"),
        Column("label", "data_source", "text", "where it comes from", required=False),
    )

    def entry(self, cells: Cells) -> Entry:
        """See `DatasetReader`."""
        cells.value("operators")
        found = Entry("", cells.text("problem"), label=cells.text("label"))
        return Entry(f"cuda_agent_ops/{found.problem_key[:12]}", found.problem, label=found.label)


class KernelllmReader(DatasetReader):
    """Prompts that contain a problem, and their answers if there are any."""

    name = "kernelllm"
    title = "KernelLLM's problems: prompts that contain a module, and answers"
    schema: ClassVar = (
        Column("problem", "prompt", "text", "the module, or a prompt that contains it"),
        Column("kernel", "completion", "text", "the answer, in a code block or bare", required=False),
        Column("label", "id", "object", "the row's name", required=False),
    )

    def entry(self, cells: Cells) -> Entry:
        """See `DatasetReader`."""
        problem = module_in(cells.text("problem"))
        answer, label = cells.text("kernel"), cells.value("label")
        kernel = extract_kernel(answer) if answer else None
        key = Entry("", problem).problem_key[:12]
        language = language_in(kernel or "")
        return Entry(
            f"kernelllm/{key}", problem, kernel=kernel, language=language, label="" if label is None else str(label)
        )


class PairsReader(DatasetReader):
    """Rows under any names: `--column problem=reference --column kernel=answer`."""

    name = "pairs"
    title = "any other rows of a problem and its kernel; --column names their columns"
    schema: ClassVar = (
        Column("problem", "problem", "text", "the module in KernelBench's form"),
        Column("kernel", "kernel", "text", "the module that defines ModelNew", required=False),
        Column("language", "language", "text", "triton or cuda_cpp; by the kernel's text if missing", required=False),
        Column("name", "name", "text", "the problem's name", required=False),
        Column("level", "level", "integer", "its level", required=False),
        Column("label", "id", "object", "the row's name", required=False),
        Column("correct", "correct", "boolean", "whether the kernel is said to be correct", required=False),
        Column("speedup", "speedup", "number", "its speedup, as said", required=False),
        Column("error", "error", "text", "how it failed, as said", required=False),
    )

    def entry(self, cells: Cells) -> Entry:
        """See `DatasetReader`."""
        problem, label = cells.text("problem"), cells.value("label")
        return Entry(
            name=cells.text("name") or f"pairs/{Entry('', problem).problem_key[:12]}",
            problem=problem,
            level=cells.integer("level"),
            kernel=cells.text("kernel") or None,
            language=_language(cells.text("language"), cells.text("kernel")),
            claim=Claim(cells.boolean("correct"), cells.number("speedup"), cells.text("error") or None),
            label="" if label is None else str(label),
        )


def _language(name: str, kernel: str) -> Language:
    match name:
        case "":
            return language_in(kernel)
        case "triton":
            return "triton"
        case "cuda_cpp":
            return "cuda_cpp"
    raise BadRow("its language is neither triton nor cuda_cpp", repr(name)[:80])


def module_in(text: str) -> str:
    """Return the last module in KernelBench's form that a prompt contains.

    Raises:
        BadRow: it contains none.
    """
    for candidate in _candidates(text):
        if (module := _parsed(candidate)) is not None:
            return module
    raise BadRow("no module with Model and get_inputs in the prompt", text[:80])


def _candidates(text: str) -> Iterator[str]:
    blocks = re.findall(r"```(?:python)?[ \t]*\n(.*?)```", text, re.DOTALL)
    yield from reversed(blocks)
    yield text
    starts = [match.start() for match in _START.finditer(text)]
    # An import that follows another import begins nothing.
    yield from (text[start:] for start in reversed(starts) if not _follows_an_import(text, start))


def _follows_an_import(text: str, start: int) -> bool:
    before = text[:start].rstrip().rpartition("\n")[2]
    return _START.match(before) is not None


def _parsed(text: str) -> str | None:
    """Return the longest prefix of a text that is a problem, without the prose after it."""
    if "class Model" not in text or "def get_inputs" not in text:
        return None
    lines = text.split("\n")
    for dropped in range(min(len(lines), _MOST_ATTEMPTS)):
        part = "\n".join(lines[: len(lines) - dropped]).rstrip() + "\n"
        try:
            tree = parse(part)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        names = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
        return part if {"Model", "get_inputs"} <= names else None
    return None


CUDA_AGENT_OPS: Final = CudaAgentOpsReader()
KERNELLLM: Final = KernelllmReader()
PAIRS: Final = PairsReader()
