"""Prompts and completions in the forms that frameworks share: chats of messages with a role and a content."""

from collections.abc import Iterable, Mapping
from typing import Any

from warpsmith.evaluator.instructions import chat
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.recordings.library_policy import OperatorPolicy


def rows(
    problems: Iterable[Problem], operators: OperatorPolicy = "none", language: str = "triton"
) -> list[dict[str, Any]]:
    """Return rows of a data set: `prompt` (a chat), `problem` (its source), `name`.

    Args:
        problems: the problems, for example of `load_problems("KernelBench")`.
        operators: what `forward` may compute with PyTorch besides its kernels; give the evaluator the same.
        language: kernel language that is asked for, the evaluator's.
    """
    return [
        {"prompt": chat(problem.source, operators, language), "problem": problem.source, "name": problem.name}
        for problem in problems
    ]


def text_of(completion: Any) -> str:
    """Return the text of a completion: itself, or what the assistant said last in a list of messages.

    A content may be text or a list of parts, whose texts are joined. A completion without an answer gives "".
    """
    if isinstance(completion, str):
        return completion
    said = [message for message in completion if message.get("role") == "assistant"]
    return content_of(said[-1]) if said else ""


def content_of(message: Mapping[str, Any]) -> str:
    """Return the text of one message."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
