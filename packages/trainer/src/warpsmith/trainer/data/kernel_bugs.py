"""Common bugs of kernels, put into generated solutions on purpose.

Scraped and sampled code holds such kernels, and imitation cannot tell them from good ones: a policy that was trained on
them writes them as often as it read them. The evaluator can, so reinforcement learning unlearns them.
"""

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

_MASK = re.compile(r", mask=[^,()]+(?:, other=[^),]*)?")
_GRID = re.compile(r"triton\.cdiv\((\w+), (\w+)\)")
_FORWARD = re.compile(r"    def forward\(self.*?\n(?=\S|\Z)", re.DOTALL)


@dataclass(frozen=True)
class KernelBug:
    """One way to get a kernel wrong.

    Args:
        name: what it is called.
        make: from a problem's text and its solution to a wrong solution; the same text where it does not apply.
    """

    name: str
    make: Callable[[str, str], str]


def with_bug(problem: str, solution: str, rng: random.Random) -> str:
    """Return the solution with one of `BUGS`, drawn among those that apply to it.

    Args:
        problem: the problem's text.
        solution: a right answer to it.
        rng: draws the bug.
    """
    texts = [bug.make(problem, solution) for bug in BUGS]
    return rng.choice([text for text in texts if text != solution])


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


def _torch_does_it(problem: str, solution: str) -> str:
    """Call torch's operators where a kernel was asked for."""
    asked = _FORWARD.search(problem)
    if asked is None or "self." in asked.group():
        return solution
    return _FORWARD.sub(lambda _: asked.group().rstrip() + "\n", solution)


BUGS = (
    KernelBug("no_mask", _no_mask),
    KernelBug("short_grid", _short_grid),
    KernelBug("half_output", _half_output),
    KernelBug("plain_block", _plain_block),
    KernelBug("no_import", _no_import),
    KernelBug("in_place", _in_place),
    KernelBug("torch_does_it", _torch_does_it),
)
"""All bugs. None changes what is computed line by line, so that each fits into any kernel."""
