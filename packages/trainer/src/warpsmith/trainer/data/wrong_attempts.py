"""Wrong attempts at a generated problem, with the evaluator's feedback on each, for examples of later turns.

A policy repairs only mistakes like those that it was shown. So half of the attempts have a bug that `flawed_share` puts
into answers, which a policy trained on these will write itself, and the others compute wrong results.
"""

import random

from warpsmith.evaluator.parsing import parse
from warpsmith.evaluator.verdict import Verdict
from warpsmith.rollout.history import Attempt
from warpsmith.trainer.data import cuda_bugs
from warpsmith.trainer.data.bugs import bugs_of, is_cuda
from warpsmith.trainer.data.kernel_bugs import WRONG_SHARES, draw_bug, incorrect, kernel_name, not_comparable


def wrong_attempt(problem: str, solution: str, rng: random.Random) -> Attempt:
    """Return a wrong attempt with a verdict like the evaluator's, without calling it.

    Args:
        problem: the problem's text.
        solution: a right answer to it.
        rng: draws what is wrong, and the figures of the verdict.
    """
    if rng.random() < 0.5:
        bug, wrong = draw_bug(problem, solution, rng, bugs_of(solution))
        return Attempt(wrong, bug.verdict(wrong, rng))
    if is_cuda(solution):
        breaks = [cuda_bugs.skip_a_line, cuda_bugs.wrong_operation, cuda_bugs.undefined_name, _cut_short]
    else:
        breaks = [_skip_a_line, _wrong_operation, _undefined_name, _cut_short]
    rng.shuffle(breaks)
    for broken in breaks:
        attempt = broken(solution, rng)
        if attempt is not None:
            return attempt
    raise AssertionError("cutting a solution short always works")


def _computing_lines(solution: str) -> list[int]:
    """Return the numbers of the lines that compute: assignments to x or y in the kernel that load nothing."""
    lines = solution.splitlines()
    return [
        i
        for i, line in enumerate(lines)
        if line.startswith(("    x = ", "    y = ")) and "tl.load" not in line and "tl.where(m" not in line
    ]


def _skip_a_line(solution: str, rng: random.Random) -> Attempt | None:
    """Leave out one computing line: wrong numbers."""
    candidates = _computing_lines(solution)
    if not candidates:
        return None
    lines = solution.splitlines()
    del lines[rng.choice(candidates)]
    return Attempt("\n".join(lines) + "\n", incorrect(rng, *WRONG_SHARES))


_CONFUSED = (
    ("tl.exp(", "tl.log("),
    ("tl.sin(", "tl.cos("),
    ("tl.maximum(", "tl.minimum("),
    ("x + ", "x - "),
    ("tl.sum(", "tl.max("),
)


def _wrong_operation(solution: str, rng: random.Random) -> Attempt | None:
    """Take one operation for its neighbour: wrong numbers."""
    swaps = [(a, b) for pair in _CONFUSED for a, b in (pair, pair[::-1]) if a in solution]
    if not swaps:
        return None
    return Attempt(solution.replace(*rng.choice(swaps), 1), incorrect(rng, *WRONG_SHARES))


def _undefined_name(solution: str, rng: random.Random) -> Attempt | None:
    """Use an operation that Triton does not have: no compilation."""
    known = [name for name in ("tl.exp", "tl.abs", "tl.sigmoid", "tl.maximum", "tl.sum", "tl.sqrt") if name in solution]
    if not known:
        return None
    name = rng.choice(known)
    wrong = {"tl.maximum": "tl.relu", "tl.sum": "tl.reduce_sum"}.get(name, name.replace("tl.", "tl.math_"))
    broken = solution.replace(name, wrong, 1)
    line = next(number for number, text in enumerate(broken.splitlines(), 1) if wrong in text)
    message = f"line {line}: kernel {kernel_name(broken)} uses {wrong}. Triton does not have it."
    return Attempt(broken, _unusable("triton_compilation_error", message))


def _cut_short(solution: str, rng: random.Random) -> Attempt:
    """End early, as a completion that ran out of tokens does."""
    lines = solution.splitlines()
    kept = "\n".join(lines[: rng.randint(len(lines) // 2, len(lines) - 2)]) + "\n"
    try:
        parse(kept)
    except SyntaxError as error:
        message = f"{type(error).__name__}: {error.msg} (candidate.py, line {error.lineno})"
        return Attempt(kept, _unusable("syntax_error", message))
    if "class ModelNew" in kept:
        return Attempt(kept, not_comparable("Output is None; expected a tensor."))
    return Attempt(kept, _unusable("parse_error", _NO_MODEL))


_NO_MODEL = (
    "CandidateError: The source defines no class ModelNew. Define `class ModelNew(nn.Module)`, whose constructor takes "
    "the same arguments as Model's."
)


def _unusable(category: str, message: str) -> Verdict:
    return Verdict("compile_error", False, False, error_category=category, error_message=message)
