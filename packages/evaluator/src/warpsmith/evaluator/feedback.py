"""A verdict as text for the candidate's author. Torch-free."""

from collections.abc import Iterable
from typing import Final

from warpsmith.evaluator.verdict import Verdict
from warpsmith.evaluator.verdict_lines import reference_name

NO_CODE: Final = "The answer has no Python code that could define ModelNew."
_INVALID: Final = "No verdict: the evaluator failed, which says nothing about the kernel."


def facts(verdict: Verdict, figures: Iterable[str] = ()) -> list[str]:
    """Return the evaluator's findings but for the message, one a line; `figures` are lines to add after the times."""
    lines = [
        f"Compiled: {'yes' if verdict.compiled else 'no'}",
        f"Correct: {'yes' if verdict.correct else f'no ({verdict.status})'}",
    ]
    if verdict.mismatched_fraction is not None and not verdict.correct:
        lines.append(f"Wrong elements: {verdict.mismatched_fraction:.2%}")
    if verdict.max_abs_error is not None and not verdict.correct:
        lines.append(f"Largest absolute error: {verdict.max_abs_error:.4g}")
    if verdict.runtime_ms is not None:
        lines.append(f"Runtime: {verdict.runtime_ms:.4g} ms")
    if verdict.speedup is not None:
        lines.append(f"Speedup over {reference_name(verdict.baseline)}: {verdict.speedup:.2f}x")
    lines += figures
    if verdict.operators:
        lines.append(f"Library operators: {', '.join(verdict.operators)}")
    if verdict.kernel_share is not None:
        lines.append(f"Share of the time in your kernels: {verdict.kernel_share:.0%}")
    if verdict.flags:
        lines.append(f"Noticed: {', '.join(verdict.flags)}")
    return lines


def feedback(verdict: Verdict) -> str:
    """Return the evaluator's findings and its message, one fact a line."""
    if verdict.status == "invalid":
        return f"{_INVALID} Its cause: {verdict.error_message}" if verdict.error_message else _INVALID
    message = [f"Error: {verdict.error_message}"] if verdict.error_message else []
    return "\n".join([*facts(verdict), *message])


def no_code() -> Verdict:
    """Return the verdict on an answer without code, which needs no evaluator."""
    return Verdict("compile_error", compiled=False, correct=False, error_category="parse_error", error_message=NO_CODE)
