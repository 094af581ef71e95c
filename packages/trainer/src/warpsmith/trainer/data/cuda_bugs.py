"""Common bugs of kernels in CUDA C++, put into generated solutions on purpose; see `kernel_bugs`.

Messages of nvcc are as the evaluator shortens them: the line is that of the candidate's file.
"""

import random
import re

from warpsmith.evaluator.verdict import Verdict
from warpsmith.rollout.history import Attempt
from warpsmith.trainer.data.kernel_bugs import WRONG_SHARES, KernelBug, incorrect, torch_does_it, torch_found

_GUARD = re.compile(r"if \((?:i|j) < [nc](?: \* c)?\) \{")
_ROUNDED_UP = re.compile(r"\((\w+(?: \* \w+)?) \+ \d+(?: - 1)?\) / (\d+)")
_COMPUTES = re.compile(r"^\s+x = .*;$")


def _no_guard(problem: str, solution: str) -> str:
    """Leave the bounds out: it reads and writes past the end, unless the size is a multiple of the block."""
    return _GUARD.sub("{", solution)


def _short_grid(problem: str, solution: str) -> str:
    """Round the grid down: the last block is never computed, unless the size is a multiple of the block."""
    return _ROUNDED_UP.sub(r"\1 / \2", solution)


def _no_barrier(problem: str, solution: str) -> str:
    """Leave the first barrier out: threads read shared memory that others have not written yet."""
    return re.sub(r"\n *__syncthreads\(\);", "", solution, count=1)


def _input_overwritten(problem: str, solution: str) -> str:
    """Write the result over the input, which is const."""
    return solution.replace("out_ptr[", "x_ptr[")


def _no_semicolon(problem: str, solution: str) -> str:
    """Forget a semicolon."""
    return re.sub(r"(const int \w = blockIdx\.x[^;]*);", r"\1", solution, count=1)


def _reads_outside(wrong: str, rng: random.Random) -> Verdict:
    message = (
        f"IllegalAccessError: kernel {_kernel_name(wrong)} loads {rng.randint(1, 255)} elements outside every tensor "
        "that it was given; the first lies right behind the end of an input. A bound or an offset is missing or wrong: "
        "check every index against the tensor's size."
    )
    return Verdict(
        "runtime_error", compiled=True, correct=False, error_category="illegal_memory_access", error_message=message
    )


def _last_block_missing(wrong: str, rng: random.Random) -> Verdict:
    return incorrect(rng, 0.02, 0.11, 0.32, 0.36, 0.44)


def _some_wrong(wrong: str, rng: random.Random) -> Verdict:
    return incorrect(rng, 0.01, 0.06, 0.25, 0.5, 1.0)


def _not_modifiable(wrong: str, rng: random.Random) -> Verdict:
    return refused_by_nvcc(wrong, re.compile(r"\bx_ptr\[[^=]*\] = "), "expression must be a modifiable lvalue")


def _expected_semicolon(wrong: str, rng: random.Random) -> Verdict:
    lines = wrong.splitlines()
    place = next(number for number, line in enumerate(lines) if re.search(r"const int \w = blockIdx\.x[^;]*$", line))
    return _refused(place + 2, lines[place + 1], 'expected a ";"')


def _torch_found(wrong: str, rng: random.Random) -> Verdict:
    return torch_found(wrong, "CUDA C++", "__global__ kernels")


def refused_by_nvcc(wrong: str, place: re.Pattern[str], what: str) -> Verdict:
    """Return the verdict on a source that nvcc rejects at the first line that `place` matches."""
    number, line = next(found for found in enumerate(wrong.splitlines(), 1) if place.search(found[1]))
    return _refused(number, line, what)


def _refused(number: int, line: str, what: str) -> Verdict:
    message = f"candidate.py({number}): error: {what}\n    {line.strip()}"
    return Verdict("compile_error", False, False, error_category="cuda_compilation_error", error_message=message)


def _kernel_name(source: str) -> str:
    return source.partition("__global__ void ")[2].partition("(")[0]


BUGS = (
    KernelBug("no_guard", _no_guard, _reads_outside),
    KernelBug("short_grid", _short_grid, _last_block_missing),
    KernelBug("no_barrier", _no_barrier, _some_wrong),
    KernelBug("input_overwritten", _input_overwritten, _not_modifiable),
    KernelBug("no_semicolon", _no_semicolon, _expected_semicolon),
    KernelBug("torch_does_it", torch_does_it, _torch_found),
)
"""All bugs. None changes what is computed line by line, so that each fits into any kernel."""


def skip_a_line(solution: str, rng: random.Random) -> Attempt | None:
    """Leave out one computing line: wrong numbers."""
    lines = solution.splitlines()
    candidates = [number for number, line in enumerate(lines) if _COMPUTES.match(line)]
    if not candidates:
        return None
    del lines[rng.choice(candidates)]
    return Attempt("\n".join(lines) + "\n", incorrect(rng, *WRONG_SHARES))


_CONFUSED = (
    ("expf(", "logf("),
    ("sinf(", "cosf("),
    ("fmaxf(", "fminf("),
    ("x + ", "x - "),
    ("x * ", "x / "),
)
_CHANGES_A_VALUE = re.compile(r"\s+(?:x|y|value|top|acc|total|squares) \+?= ")


def wrong_operation(solution: str, rng: random.Random) -> Attempt | None:
    """Take one operation for its neighbour, not in an index: wrong numbers."""
    lines = solution.splitlines()
    pairs = [(a, b) for pair in _CONFUSED for a, b in (pair, pair[::-1])]
    swaps = [
        (number, a, b)
        for number, line in enumerate(lines)
        for a, b in pairs
        if _CHANGES_A_VALUE.match(line) and a in line.partition("=")[2]
    ]
    if not swaps:
        return None
    number, a, b = rng.choice(swaps)
    name, sign, value = lines[number].partition("=")
    lines[number] = f"{name}{sign}{value.replace(a, b, 1)}"
    return Attempt("\n".join(lines) + "\n", incorrect(rng, *WRONG_SHARES))


_FUNCTIONS = ("expf", "fabsf", "fmaxf", "sqrtf", "tanhf", "logf")


def undefined_name(solution: str, rng: random.Random) -> Attempt | None:
    """Use a function or a variable that CUDA does not have: no compilation."""
    known = [name for name in _FUNCTIONS if f"{name}(" in solution]
    name, wrong = "blockIdx.x", "blockidx.x"
    if known:
        name = rng.choice(known)
        wrong = f"fast_{name}"
    broken = solution.replace(name, wrong, 1)
    message = f'identifier "{wrong.partition(".")[0]}" is undefined'
    return Attempt(broken, refused_by_nvcc(broken, re.compile(re.escape(wrong)), message))
