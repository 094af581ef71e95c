"""What statuses, flags and error categories mean, and what to do, for an agent that reads a verdict."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from warpsmith.evaluator.verdict import ERROR_CATEGORIES
from warpsmith.records.errors import UsageError

STATUS_MEANINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "correct": "Every trial agreed, the kernels compile, and they alone produce the output.",
        "incorrect": "An output differs in form or value. The message names an element; check masks, dtypes and the "
        "order of reductions, for other shapes and value ranges too.",
        "compile_error": "No valid module with ModelNew, or a kernel that ran does not compile. Fix the line that the "
        "message names.",
        "runtime_error": "An exception, an access outside the tensors of a launch, a write to an input, or a crash. "
        "Most often a mask is missing.",
        "timeout": "No answer before the deadline: an endless loop, or a grid that is far too large.",
        "rejected": "torch did the work, no kernel ran, or the kernels alone do not produce the output. Move the "
        "computation into kernels.",
        "undecided": "The kernel depends on something that chips compute differently from the interpreter, or nothing "
        "interprets its language: only a GPU can decide. It may be right.",
        "invalid": "The evaluator failed, which says nothing about the kernel. Check it again.",
    }
)
FLAG_MEANINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "other_language": "The candidate is written, at least in part, in another kernel language than the one judged.",
        "torch_fallback": "torch computed something that the policy of operators does not allow.",
        "no_kernel": "No kernel was launched.",
        "decoy_kernel": "The output appears without the kernels.",
        "not_from_kernels": "On other contents, host code launches something else.",
        "not_replayed": "The problem's shapes change at each call, so launches could not be replayed.",
        "input_mutation": "An input was written to; write to memory of your own.",
        "degenerate_problem": "The problem accepts an output that does not depend on its inputs.",
        "unvaried": "Nothing in the problem can differ between trials.",
        "returns_input": "An output is memory that the candidate may only read, such as an input.",
        "host_memory": "forward allocates on the CPU, which no kernel on a GPU could reach; pass device=.",
        "missing_buffers": "The candidate lacks buffers of the problem; register them under the same names.",
        "constant_input": "An input is the same in every trial, so a kernel could ignore it.",
        "unmatched_parameters": "The candidate lacks a parameter of the problem; keep names and shapes.",
        "tf32_dot": 'A float32 tl.dot runs in TF32 on the chip; use input_precision="ieee".',
        "no_fp64": "Expected values come from the problem's own dtype alone, so tolerances are wider.",
        "kernelbench_passes": "KernelBench's own comparison would accept the output; it fails on other inputs.",
        "wrong_when_timed": "The output of a timed call was wrong.",
        "impossible_time": "Less time than writing the output takes.",
        "clocks_disagree": "The judge's clock stands above the events; the slower figure counts.",
        "retried": "The candidate was judged again alone before it was blamed.",
    }
)


def explained(status: str, flags: Sequence[str] = (), category: str | None = None) -> str:
    """Return what a status, flags and an error category mean, one a line.

    Raises:
        UsageError: one of them does not exist.
    """
    if status not in STATUS_MEANINGS:
        raise UsageError(f"There is no status {status!r}.", f"The statuses are {', '.join(STATUS_MEANINGS)}.")
    if unknown := [flag for flag in flags if flag not in FLAG_MEANINGS]:
        raise UsageError(f"There is no flag {unknown[0]!r}.", f"The flags are {', '.join(FLAG_MEANINGS)}.")
    if category is not None and category not in ERROR_CATEGORIES:
        raise UsageError(f"There is no category {category!r}.", f"They are {', '.join(ERROR_CATEGORIES)}.")
    lines = [f"{status}: {STATUS_MEANINGS[status]}", *(f"{flag}: {FLAG_MEANINGS[flag]}" for flag in flags)]
    if category is not None:
        lines.append(f"The failure is of the kind {category.replace('_', ' ')}; the verdict's message has the place.")
    return "\n".join(lines)
