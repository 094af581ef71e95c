"""Prompts of a turn: the task, the problem, and the verdicts on earlier attempts.

A turn's prompt is one user message (in the `full` style after a system message) with the kernels of earlier turns and
their verdicts, without their thoughts. What does not fit the token budget is dropped, oldest first.
"""

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from warpsmith.evaluator.recordings.library_policy import FAMILIES, OperatorPolicy
from warpsmith.evaluator.verdict import Verdict
from warpsmith.rollout.datasets import ProblemRow
from warpsmith.rollout.errors import PromptTooLongError

Message = dict[str, str]
PromptStyle = Literal["full", "compact"]
TokenCounter = Callable[[list[Message]], int]
"""Number of tokens of a conversation's prompt, including the generation prompt."""

_SHORT_MESSAGE = 300
"""Characters kept of an error message that does not fit completely."""

_SYSTEM = "You are an expert in GPU programming. You rewrite PyTorch modules as fast, correct Triton kernels."

_TASK = """\
Rewrite the PyTorch module `Model` below as a module `ModelNew` that computes the same with Triton kernels.

Rules:
- `ModelNew` takes the same constructor arguments as `Model`, and its `forward` takes and returns the same tensors: \
same shapes, dtypes and device.
- {operators}
- Parameters keep their names and shapes. Their values may change between calls, so anything derived from them must be \
computed again in every call. The same holds for inputs: nothing may be kept from an earlier call.
- Do not write to the inputs. Take every size from the inputs: they also come smaller than `get_inputs()` makes them, \
in sizes that are no multiple of your block. Block sizes may be tuned to the sizes of `get_inputs()`.
- fp32 products need `input_precision="ieee"` in `tl.dot` to stay within the tolerance.
- `get_inputs()` promises shapes, dtypes and what its code builds into the inputs (sorted rows, masks, lengths, index \
bounds), not the range of its random numbers: they also come with other signs and sizes, zero rows and large outliers.
- Outputs are compared on several sets of new random inputs; then the kernels are timed against PyTorch.

Answer with one complete file in a single ```python code block, imports included.

Problem:
```python
{problem}
```"""

_OPERATORS: dict[OperatorPolicy, str] = {
    "none": "The computation happens in `@triton.jit` kernels that you write. PyTorch may allocate tensors, make views "
    "and read shapes; any other PyTorch operation in `forward` is rejected.",
    "library": "Write `@triton.jit` kernels for the computation. Beside them PyTorch may allocate tensors, make views, "
    f"read shapes and compute {', '.join(FAMILIES)}; any other PyTorch operation in `forward`, and `torch.compile`, is "
    "rejected, and so is an output that is right without your kernels.",
    "any": "Write `@triton.jit` kernels for as much of the computation as makes it fast. PyTorch may compute the rest, "
    "but without random numbers, indexing by tensors, shapes that depend on values, and `torch.compile`; an output "
    "that is right without your kernels is rejected.",
}
"""The rule on PyTorch's operators, by the policy in force."""

_ASK_AGAIN = "Write the whole file again, correct and as fast as you can, in a single ```python code block."


@dataclass(frozen=True)
class Attempt:
    """An earlier turn.

    Args:
        kernel: its kernel; None if the answer had none or it was dropped.
        verdict: the verdict on it.
        left_out: whether its kernel did not fit into the prompt.
    """

    kernel: str | None
    verdict: Verdict
    left_out: bool = False


def build_prompt(
    problem: ProblemRow,
    attempts: Sequence[Attempt] = (),
    *,
    style: PromptStyle,
    operators: OperatorPolicy = "none",
    count_tokens: TokenCounter | None = None,
    budget: int | None = None,
    inert: Callable[[str], str] = str,
) -> list[Message]:
    """Return the messages of the next turn, within `budget` tokens.

    Args:
        problem: the problem to solve.
        attempts: earlier turns, oldest first.
        operators: what `forward` may compute with PyTorch beside its kernels.
        style: `full` explains the task to a general model; `compact` gives a tiny model only the essential lines.
        count_tokens: counts a prompt's tokens; required if there is a budget.
        budget: maximum tokens of the prompt; None for no limit.
        inert: breaks up control tokens of the chat template in text written by a model.

    Raises:
        PromptTooLongError: the problem alone exceeds the budget.
    """
    if budget is None or count_tokens is None:
        return _messages(problem, [_inert(attempt, inert) for attempt in attempts], style, operators)
    for history in _shorter_and_shorter([_inert(attempt, inert) for attempt in attempts]):
        messages = _messages(problem, history, style, operators)
        tokens = count_tokens(messages)
        if tokens <= budget:
            return messages
    raise PromptTooLongError(
        f"The prompt of problem {problem.name} takes {tokens} tokens without any history; the budget is {budget}.",
        "Raise prompt_tokens, use the compact prompt style, or drop the problem.",
    )


def _shorter_and_shorter(attempts: list[Attempt]) -> list[list[Attempt]]:
    """Yield the histories to try, longest first: oldest turns dropped, then the last one's message, then its kernel."""
    histories = [attempts[i:] for i in range(len(attempts))]
    if attempts:
        last = attempts[-1]
        shorter = replace(last.verdict, error_message=_shortened(last.verdict.error_message))
        histories += [[replace(last, verdict=shorter)], [_without_kernel(replace(last, verdict=shorter))]]
    return [*histories, []]


def _without_kernel(attempt: Attempt) -> Attempt:
    return replace(attempt, kernel=None, left_out=attempt.left_out or attempt.kernel is not None)


def _inert(attempt: Attempt, inert: Callable[[str], str]) -> Attempt:
    message = attempt.verdict.error_message
    return replace(
        attempt,
        kernel=attempt.kernel and inert(attempt.kernel),
        verdict=replace(attempt.verdict, error_message=message and inert(message)),
    )


def _shortened(message: str | None) -> str | None:
    """Keep both ends: the first line says what failed, the last ones say why."""
    if message is None or len(message) <= _SHORT_MESSAGE:
        return message
    half = _SHORT_MESSAGE // 2
    return f"{message[:half]} ... {message[-half:]}"


def _messages(
    problem: ProblemRow, attempts: Sequence[Attempt], style: PromptStyle, operators: OperatorPolicy
) -> list[Message]:
    if style == "compact":
        return [{"role": "user", "content": _compact(problem, attempts, operators)}]
    return [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": _full(problem, attempts, operators)}]


def _full(problem: ProblemRow, attempts: Sequence[Attempt], operators: OperatorPolicy) -> str:
    parts = [_TASK.format(problem=problem.text.strip(), operators=_OPERATORS[operators])]
    for number, attempt in enumerate(attempts, 1):
        title = "Your last attempt" if number == len(attempts) else "An earlier attempt"
        code = f"\n```python\n{attempt.kernel.strip()}\n```" if attempt.kernel else ""
        parts.append(f"{title}:{code}\n{feedback(attempt)}")
    return "\n\n".join([*parts, _ASK_AGAIN] if attempts else parts)


def feedback(attempt: Attempt) -> str:
    """Return the evaluator's findings about an attempt, one fact per line."""
    verdict = attempt.verdict
    lines = []
    if attempt.kernel is None and not attempt.left_out and verdict.status == "compile_error":
        lines.append("No code was found in the answer.")
    lines.append(f"Compiled: {'yes' if verdict.compiled else 'no'}")
    lines.append(f"Correct: {'yes' if verdict.correct else f'no ({verdict.status})'}")
    if verdict.mismatched_fraction is not None and not verdict.correct:
        lines.append(f"Wrong elements: {verdict.mismatched_fraction:.2%}")
    if verdict.max_abs_error is not None and not verdict.correct:
        lines.append(f"Largest absolute error: {verdict.max_abs_error:.4g}")
    if verdict.runtime_ms is not None:
        lines.append(f"Runtime: {verdict.runtime_ms:.4g} ms")
    if verdict.speedup is not None:
        lines.append(f"Speedup over PyTorch: {verdict.speedup:.2f}x")
    if verdict.operators:
        lines.append(f"Library operators: {', '.join(verdict.operators)}")
    if verdict.kernel_share is not None:
        lines.append(f"Share of the time in your kernels: {verdict.kernel_share:.0%}")
    if verdict.flags:
        lines.append(f"Noticed: {', '.join(verdict.flags)}")
    if verdict.error_message:
        lines.append(f"Error: {verdict.error_message}")
    return "\n".join(lines)


def _compact(problem: ProblemRow, attempts: Sequence[Attempt], operators: OperatorPolicy) -> str:
    parts = [essential_lines(problem.text)]
    if operators != "none":
        parts.insert(0, f"# operators: {operators}")
    for attempt in attempts:
        code = f"{attempt.kernel.strip()}\n" if attempt.kernel else ""
        parts.append(f"# tried\n{code}# {compact_feedback(attempt.verdict)}")
    return "\n".join(parts)


def compact_feedback(verdict: Verdict) -> str:
    """Return a verdict in a few words on one line; a message is cut to its first 80 characters."""
    words = verdict.status.replace("_", " ")
    if verdict.status == "incorrect" and verdict.mismatched_fraction is not None:
        words += f" {verdict.mismatched_fraction:.0%}"
    elif verdict.correct and verdict.speedup is not None:
        words += f" {verdict.speedup:.1f}x"
    elif not verdict.correct and (message := (verdict.error_message or "").strip()):
        words += f": {message.splitlines()[0][:80]}"
    return words


def essential_lines(source: str) -> str:
    """Return the computation of a problem: the methods of `Model`, without a constructor that does nothing.

    Before them come the module's whole numbers, which are sizes: what is fast depends on them.

    The whole source if it does not parse or has no `Model`.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return source.strip()
    model = next((n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Model"), None)
    if model is None:
        return source.strip()
    sizes = [n for n in tree.body if _is_size(n)]
    helpers = [n for n in tree.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("get_")]
    methods = [n for n in model.body if isinstance(n, ast.FunctionDef) and not _does_nothing(n)]
    functions = [_without_docstring(node) for node in [*helpers, *methods]]
    return "\n".join(ast.unparse(node) for node in [*sizes, *functions])


def _is_size(statement: ast.stmt) -> bool:
    value = statement.value if isinstance(statement, ast.Assign) else None
    return isinstance(value, ast.Constant) and type(value.value) is int


def _does_nothing(method: ast.FunctionDef) -> bool:
    calls = [ast.unparse(node) for node in _without_docstring(method).body]
    return method.name == "__init__" and all(call in _EMPTY_CONSTRUCTOR for call in calls)


_EMPTY_CONSTRUCTOR = ("super().__init__()", "super(Model, self).__init__()", "pass")


def _without_docstring(function: ast.FunctionDef) -> ast.FunctionDef:
    has_docstring = ast.get_docstring(function) is not None
    body = function.body[1:] if has_docstring else function.body
    copy = ast.FunctionDef(**{name: getattr(function, name) for name in function._fields})
    copy.body = body or [ast.Pass()]
    return ast.copy_location(copy, function)
