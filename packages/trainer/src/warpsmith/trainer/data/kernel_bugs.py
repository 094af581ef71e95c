"""Common bugs of kernels, put into generated solutions on purpose.

Scraped and sampled code contains such kernels, and imitation cannot tell them from good ones: a policy trained on them
writes them as often as it has read them. The evaluator can, so reinforcement learning unlearns them.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from warpsmith.evaluator.verdict import Verdict

_MASK = re.compile(r", mask=[^,()]+(?:, other=[^),]*)?")
_GRID = re.compile(r"triton\.cdiv\((\w+), (\w+)\)")
_FORWARD = re.compile(r"    def forward\(self.*?\n(?=\S|\Z)", re.DOTALL)


WRONG_SHARES = (0.5, 0.93, 0.98, 0.99, 1.0, 1.0, 1.0)
"""Shares of wrong elements if the computation is wrong: usually all."""


@dataclass(frozen=True)
class KernelBug:
    """One way to get a kernel wrong.

    Args:
        name: what it is called.
        make: from a problem's text and its solution to a wrong solution; the same text where it does not apply.
        verdict: from a wrong solution to a verdict as the evaluator gives it, with random figures.
    """

    name: str
    make: Callable[[str, str], str]
    verdict: Callable[[str, random.Random], Verdict]


def with_bug(problem: str, solution: str, rng: random.Random, bugs: Sequence[KernelBug] = ()) -> str:
    """Return the solution with one of `bugs`, drawn among those that apply to it; see `draw_bug`."""
    return draw_bug(problem, solution, rng, bugs)[1]


def draw_bug(problem: str, solution: str, rng: random.Random, bugs: Sequence[KernelBug] = ()) -> tuple[KernelBug, str]:
    """Return one of `bugs`, drawn among those that apply to a solution, and the solution with it.

    Args:
        problem: the problem's text.
        solution: a right answer to it.
        rng: draws the bug.
        bugs: of the solution's language; `BUGS`, those of Triton, if there are none.
    """
    made = [(bug, bug.make(problem, solution)) for bug in bugs or BUGS]
    return rng.choice([(bug, text) for bug, text in made if text != solution])


def _no_mask(problem: str, solution: str) -> str:
    """Leave the masks out: it reads and writes past the end, unless the size is a multiple of the block."""
    return _MASK.sub("", solution)


def _short_grid(problem: str, solution: str) -> str:
    """Round the grid down: the last block is never computed, unless the size is a multiple of the block."""
    return _GRID.sub(r"\1 // \2", solution)


def _half_output(problem: str, solution: str) -> str:
    """Allocate the output in another dtype."""
    return re.sub(r"torch\.empty_like\((\w+)\)", r"torch.empty_like(\1, dtype=torch.float16)", solution)


def _plain_block(problem: str, solution: str) -> str:
    """Forget that a block's size must be known when the kernel is compiled."""
    return solution.replace(": tl.constexpr", "")


def _no_import(problem: str, solution: str) -> str:
    """Forget an import."""
    return solution.replace("import triton.language as tl\n", "")


def _in_place(problem: str, solution: str) -> str:
    """Write the result over the input."""
    return solution.replace("tl.store(out_ptr", "tl.store(x_ptr")


def torch_does_it(problem: str, solution: str) -> str:
    """Call torch's operators where a kernel was requested."""
    asked = _FORWARD.search(problem)
    if asked is None or "self." in asked.group():
        return solution
    return _FORWARD.sub(lambda _: asked.group().rstrip() + "\n", solution)


def incorrect(rng: random.Random, *wrong: float) -> Verdict:
    """Return a verdict on wrong numbers.

    Args:
        rng: draws its figures.
        wrong: shares of wrong elements to draw from.
    """
    return Verdict(
        "incorrect",
        compiled=True,
        correct=False,
        max_abs_error=round(rng.uniform(0.05, 5.0), 4),
        mismatched_fraction=rng.choice(wrong),
        trials=1,
    )


def not_comparable(message: str) -> Verdict:
    """Return a verdict on outputs whose form differs from the reference's, as `message` says."""
    return Verdict("incorrect", compiled=False, correct=False, error_message=message)


def _failed(category: str, message: str, *, compiled: bool = True) -> Verdict:
    return Verdict("runtime_error", compiled, correct=False, error_category=category, error_message=message)


def _reads_outside(wrong: str, rng: random.Random) -> Verdict:
    message = (
        f"IllegalAccessError: kernel {kernel_name(wrong)} loads {rng.randint(1, 1023)} elements outside every tensor "
        "that it was given; the first lies right behind the end of x_ptr. A mask or an offset is missing or wrong: "
        "mask every load and store by the tensor's size."
    )
    return _failed("illegal_memory_access", message)


def _last_block_missing(wrong: str, rng: random.Random) -> Verdict:
    return incorrect(rng, 0.02, 0.11, 0.32, 0.36, 0.44)


def _other_dtype(wrong: str, rng: random.Random) -> Verdict:
    return not_comparable("Output has dtype float16; expected float32.")


def _block_not_known(wrong: str, rng: random.Random) -> Verdict:
    lines = wrong.splitlines()
    place = next(number for number, line in enumerate(lines) if "tl.arange(" in line)
    first = max(number for number in range(place) if lines[number].startswith("def "))
    column = lines[place].index("tl.arange(")
    message = (
        f"at {place - first + 1}:{column}:\n" + "\n".join(lines[first : place + 1]) + f"\n{' ' * column}^\n"
        "arange's arguments must be of type tl.constexpr"
    )
    return Verdict("compile_error", False, False, error_category="triton_compilation_error", error_message=message)


def _name_missing(wrong: str, rng: random.Random) -> Verdict:
    number, line = next(found for found in enumerate(wrong.splitlines(), 1) if found[1].startswith("def "))
    return _failed(
        "name_error", f"NameError: name 'tl' is not defined\nline {number}, in <module>: {line}", compiled=False
    )


def _input_written(wrong: str, rng: random.Random) -> Verdict:
    message = (
        f"InputMutationError: kernel {kernel_name(wrong)} stores to x_ptr, which is an input or a parameter; both are "
        "read-only. Store to an output made with torch.empty_like, or to a clone."
    )
    return _failed("memory_fault", message)


def _torch_found(wrong: str, rng: random.Random) -> Verdict:
    return torch_found(wrong, "Triton", "@triton.jit kernels")


def torch_found(wrong: str, title: str, kernels: str) -> Verdict:
    """Return the verdict on a forward that calls torch; `title` and `kernels` name the language and its kernels."""
    body = wrong[wrong.rindex("def forward") :]
    start = wrong.count("\n", 0, len(wrong) - len(body)) + 1
    computing = [(start + place, line.strip()) for place, line in enumerate(body.splitlines()) if "=" in line]
    number, line = computing[0] if computing else (start, body.splitlines()[0].strip())
    if "F." in body:
        number, line = next(
            (start + place, text.strip()) for place, text in enumerate(body.splitlines()) if "F." in text
        )
        return _failed(
            "name_error", f"NameError: name 'F' is not defined\nline {number}, in forward: {line}", compiled=False
        )
    used = re.search(r"torch\.(\w+)\(", line)
    name = used.group(1) if used else next((word for sign, word in _SIGNS.items() if sign in line), "neg")
    return Verdict(
        "rejected", False, False,
        error_message=f"forward computes with torch instead of {title}: aten::{name} (line {number}: {line}). Compute "
        f"in {kernels}.",
    )  # fmt: skip


_SIGNS = {" + ": "add", " - ": "sub", " * ": "mul", " / ": "div"}


def kernel_name(source: str) -> str:
    """Return the name of a solution's first function, which is a kernel."""
    return source.partition("\ndef ")[2].partition("(")[0]


BUGS = (
    KernelBug("no_mask", _no_mask, _reads_outside),
    KernelBug("short_grid", _short_grid, _last_block_missing),
    KernelBug("half_output", _half_output, _other_dtype),
    KernelBug("plain_block", _plain_block, _block_not_known),
    KernelBug("no_import", _no_import, _name_missing),
    KernelBug("in_place", _in_place, _input_written),
    KernelBug("torch_does_it", torch_does_it, _torch_found),
)
"""All bugs. None changes what is computed line by line, so that each fits into any kernel."""
