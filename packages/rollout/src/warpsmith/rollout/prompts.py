"""Prompts of a turn: the task, the problem, and the verdicts on earlier attempts.

A turn's prompt is one user message (in the `full` style after a system message) with the kernels of earlier turns and
their verdicts, without their thoughts. What does not fit the token budget is compressed or dropped, see `history`.
"""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal

from warpsmith.evaluator.feedback import facts
from warpsmith.evaluator.instructions import kernels_of, mark_of, request, rules, system
from warpsmith.evaluator.parsing import parse
from warpsmith.evaluator.recordings.library_policy import OperatorPolicy
from warpsmith.evaluator.verdict import Verdict
from warpsmith.evaluator.verdict_lines import baseline_lines, bound_lines, kernel_lines, size, traffic_lines
from warpsmith.rollout.datasets import ProblemRow
from warpsmith.rollout.errors import PromptTooLongError
from warpsmith.rollout.feedback_config import ALL, FeedbackConfig
from warpsmith.rollout.history import Attempt, HistoryConfig, Shown, ShownAttempt, histories
from warpsmith.rollout.turns import Agent

Message = dict[str, str]
PromptStyle = Literal["full", "compact"]
TokenCounter = Callable[[list[Message]], int]
"""Number of tokens of a conversation's prompt, including the generation prompt."""


@dataclass(frozen=True)
class _Wording:
    """What a `full` prompt says before the rules, and after earlier attempts; `{kernels}` are those of the language."""

    system: str
    task: str
    again: str


_WORDINGS: Final[Mapping[Agent | None, _Wording]] = MappingProxyType(
    {
        None: _Wording(
            "{system}",
            "{request}",
            "Write the whole file again, correct and as fast as you can, in a single ```python code block.",
        ),
        "generator": _Wording(
            "You are an expert in GPU programming. You are the generator: you rewrite PyTorch modules as correct "
            "{kernels}, which an optimizer can make faster afterwards.",
            "{request} A simple kernel that is correct on all inputs is worth more than a fast one that is not.",
            "Write the whole file again, correct, in a single ```python code block.",
        ),
        "optimizer": _Wording(
            "You are an expert in GPU programming. You are the optimizer: you make correct {kernels} faster and "
            "keep them correct.",
            "Make the module `ModelNew` below faster. It computes the same as the PyTorch module `Model` with "
            "{kernels}, and is correct. Your module is compared with it: what counts is how much faster yours is, and "
            "one that is not correct is worth less than no change.",
            "Write the whole file again, correct and faster than the module to make faster, in a single ```python "
            "code block.",
        ),
    }
)


_FEWER_BYTES: Final = _Wording(
    "You are an expert in GPU programming. You are the optimizer: you let correct {kernels} read and write fewer bytes "
    "of global memory and keep them correct.",
    "Let the module `ModelNew` below move fewer bytes. It computes the same as the PyTorch module `Model` with "
    "{kernels}, and is correct. Your module is compared with it: what counts is how many bytes all its programs load "
    "and store, atomic operations twice, and one that is not correct is worth less than no change. Fuse kernels, load "
    "each element once, and keep intermediate results in registers.",
    "Write the whole file again, correct and with fewer bytes than the module to improve, in a single ```python code "
    "block.",
)
"""The wording for an optimizer where nothing is timed."""
WHOLE: Final = HistoryConfig()


def build_prompt(
    problem: ProblemRow,
    attempts: Sequence[Attempt] = (),
    *,
    style: PromptStyle,
    operators: OperatorPolicy = "none",
    count_tokens: TokenCounter | None = None,
    budget: int | None = None,
    history: HistoryConfig = WHOLE,
    inert: Callable[[str], str] = str,
    agent: Agent | None = None,
    start: Attempt | None = None,
    figures: FeedbackConfig = ALL,
    language: str = "triton",
) -> list[Message]:
    """Return the messages of the next turn, within `budget` tokens.

    Args:
        problem: the problem to solve.
        attempts: earlier turns, oldest first.
        operators: what `forward` may compute with PyTorch besides its kernels.
        style: `full` explains the task to a general model; `compact` gives a tiny model only the essential lines.
        count_tokens: counts a prompt's tokens; required if there is a budget.
        budget: maximum tokens of the prompt; None for no limit.
        history: how earlier attempts are shown.
        inert: breaks up control tokens of the chat template in text written by a model.
        agent: who is asked; None where one policy does all.
        start: for the optimizer, the kernel that it starts from; always shown whole.
        figures: which figures of a correct kernel are shown.
        language: kernel language that is asked for, `evaluator.language`.

    Raises:
        UnaskedLanguageError: no prompt asks for this language.
        PromptTooLongError: the problem alone, with the start if there is one, exceeds the budget.
    """
    safe = [_inert(attempt, inert) for attempt in attempts]
    begun = None if start is None else _inert(start, inert)
    asked = _Asked(problem, style, operators, agent, begun, figures, language)
    diffs = style == "full"
    if budget is None or count_tokens is None:
        return _messages(asked, next(histories(safe, history, diffs=diffs, tokens=None)))

    def measure(shown: Shown) -> int:
        return count_tokens([{"role": "user", "content": _joined(shown, style, figures)}])

    for shown in histories(safe, history, diffs=diffs, tokens=measure):
        messages = _messages(asked, shown)
        tokens = count_tokens(messages)
        if tokens <= budget:
            return messages
    raise PromptTooLongError(
        f"The prompt of problem {problem.name} takes {tokens} tokens without any history; the budget is {budget}.",
        "Raise prompt_tokens, use the compact prompt style, or drop the problem.",
    )


def _inert(attempt: Attempt, inert: Callable[[str], str]) -> Attempt:
    message = attempt.verdict.error_message
    return replace(
        attempt,
        kernel=attempt.kernel and inert(attempt.kernel),
        verdict=replace(attempt.verdict, error_message=message and inert(message)),
    )


@dataclass(frozen=True)
class _Asked:
    """What a prompt asks, apart from earlier attempts; see `build_prompt`."""

    problem: ProblemRow
    style: PromptStyle
    operators: OperatorPolicy
    agent: Agent | None
    start: Attempt | None
    figures: FeedbackConfig
    language: str


def _messages(asked: _Asked, shown: Shown) -> list[Message]:
    history = _joined(shown, asked.style, asked.figures)
    if asked.style == "compact":
        rule = "" if asked.operators == "none" else f"# operators: {asked.operators}"
        # The problem comes last: a tiny model loses a problem that stands before its attempts.
        parts = [
            mark_of(asked.language),
            rule,
            history,
            essential_lines(asked.problem.text),
            _compact_start(asked.start),
        ]
        return [{"role": "user", "content": "\n".join(part for part in parts if part)}]
    wording = _in_language(_wording_of(asked), asked.language)
    problem = f"Problem:\n```python\n{asked.problem.text.strip()}\n```"
    parts = [
        wording.task,
        rules(asked.operators, asked.language),
        problem,
        _full_start(asked.start, asked.figures),
        *([history, wording.again] if history else []),
    ]
    content = "\n\n".join(part for part in parts if part)
    return [{"role": "system", "content": wording.system}, {"role": "user", "content": content}]


def _wording_of(asked: _Asked) -> _Wording:
    return _FEWER_BYTES if asked.start is not None and _counts_bytes(asked.start) else _WORDINGS[asked.agent]


def _counts_bytes(start: Attempt) -> bool:
    """Whether an optimizer is scored by bytes: its start has some, and no time."""
    return start.verdict.speedup is None and start.verdict.bytes_moved is not None


def _in_language(wording: _Wording, language: str) -> _Wording:
    terms = {"kernels": kernels_of(language), "system": system(language), "request": request(language)}
    return _Wording(wording.system.format(**terms), wording.task.format(**terms), wording.again)


def _full_start(start: Attempt | None, figures: FeedbackConfig) -> str:
    if start is None:
        return ""
    findings = feedback(start, figures=figures)
    aim = "improve" if _counts_bytes(start) else "make faster"
    return f"The module to {aim}:\n```python\n{(start.kernel or '').strip()}\n```\n{findings}"


def _compact_start(start: Attempt | None) -> str:
    if start is None:
        return ""
    return f"# make faster\n{(start.kernel or '').strip()}\n# {compact_feedback(start.verdict)}"


def _joined(shown: Shown, style: PromptStyle, figures: FeedbackConfig) -> str:
    """Return attempts as text."""
    if style == "compact":
        return "\n".join(map(_compact, shown))
    alone = len(shown) == 1 and shown[0].turn == 1
    return "\n\n".join(_full(one, alone, figures) for one in shown)


def _full(shown: ShownAttempt, alone: bool, figures: FeedbackConfig) -> str:
    title = _TITLES[shown.role] if alone else f"{_TITLES[shown.role]} (turn {shown.turn})"
    if shown.brief:
        return f"{title}: {compact_feedback(shown.attempt.verdict)}"
    if shown.diff is not None:
        code = f"{title}, as changes to the kernel of turn {shown.diff_to}:\n```diff\n{shown.diff}\n```"
    elif shown.attempt.kernel:
        code = f"{title}:\n```python\n{shown.attempt.kernel.strip()}\n```"
    else:
        code = f"{title}:"
    return f"{code}\n{feedback(shown.attempt, shown.same_error_as, figures)}"


_TITLES: Final = {"last": "Your last attempt", "best": "Your best attempt so far", "earlier": "An earlier attempt"}


def feedback(attempt: Attempt, same_error_as: int | None = None, figures: FeedbackConfig = ALL) -> str:
    """Return the evaluator's findings about an attempt, one fact per line.

    Args:
        attempt: the attempt.
        same_error_as: a turn with the same error, named instead of the message.
        figures: which figures of a correct kernel are shown.
    """
    verdict = attempt.verdict
    lines = []
    if attempt.kernel is None and not attempt.left_out and verdict.status == "compile_error":
        lines.append("No code was found in the answer.")
    lines += facts(verdict, _figures(verdict, figures))
    if same_error_as is not None:
        lines.append(f"Error: the same as in turn {same_error_as}")
    elif verdict.error_message:
        lines.append(f"Error: {verdict.error_message}")
    return "\n".join(lines)


def _figures(verdict: Verdict, figures: FeedbackConfig) -> Iterator[str]:
    """Yield the lines about a verdict's figures that are switched on."""
    wanted = {
        baseline_lines: figures.baselines,
        bound_lines: figures.bound,
        traffic_lines: figures.traffic,
        kernel_lines: figures.kernels,
    }
    return (line for lines, shown in wanted.items() if shown for line in lines(verdict))


def _compact(shown: ShownAttempt) -> str:
    kernel = shown.attempt.kernel
    code = f"{kernel.strip()}\n" if kernel and not shown.brief else ""
    return f"# tried\n{code}# {compact_feedback(shown.attempt.verdict)}"


def compact_feedback(verdict: Verdict) -> str:
    """Return a verdict in a few words on one line; a message is cut to its first 80 characters."""
    words = verdict.status.replace("_", " ")
    if verdict.status == "incorrect" and verdict.mismatched_fraction is not None:
        words += f" {verdict.mismatched_fraction:.0%}"
    elif verdict.correct and verdict.speedup is not None:
        words += f" {verdict.speedup:.1f}x"
    elif verdict.bytes_moved is not None:
        words += f" {size(verdict.bytes_moved)}"
    elif not verdict.correct and (message := (verdict.error_message or "").strip()):
        words += f": {message.splitlines()[0][:80]}"
    return words


def essential_lines(source: str) -> str:
    """Return the computation of a problem: the methods of `Model`, without a constructor that does nothing.

    Before them come the module's whole numbers, which are sizes: what is fast depends on them.

    The whole source if it does not parse or has no `Model`.
    """
    try:
        tree = parse(source)
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
