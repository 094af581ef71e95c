"""Checks of a chat template for problems in sampling or training, run before either starts."""

from collections.abc import Sequence
from dataclasses import dataclass

from warpsmith.policy.chat import ChatFormat
from warpsmith.policy.errors import PolicyError, TemplateError
from warpsmith.policy.rendering import Message

_QUESTIONS = ("Add two vectors.", "It did not compile.")
_ANSWERS = ("def add(x, y):\n    return x + y", "import triton")
_THOUGHTS = ("One load each.", "The import.")


@dataclass(frozen=True)
class Doubt:
    """A problem of a template that a user should know before a run.

    Attributes:
        message: what was found, and its consequence.
        remedy: how to fix it.
        blocks: whether conversations cannot be trained at all; a policy that learns from samples can still run.
    """

    message: str
    remedy: str
    blocks: bool = False


def demonstrations() -> tuple[list[Message], list[Message]]:
    """Return a conversation of plain answers, and the same with a thought before each answer."""
    thoughtful = [
        f"<think>\n{thought}\n</think>\n\n{answer}" for thought, answer in zip(_THOUGHTS, _ANSWERS, strict=True)
    ]
    return _talk(_ANSWERS), _talk(thoughtful)


def demonstration(chat: ChatFormat) -> list[Message] | None:
    """Return a conversation that can be trained with this format, or None."""
    return next((talk for talk in demonstrations() if _refusal(chat, talk) is None), None)


def sampling_doubts(chat: ChatFormat) -> list[Doubt]:
    """Return problems that may keep sampled answers from ending."""
    if chat.end_of_turn_id is not None:
        return []
    after = chat.text_after_answer.strip()
    seen = f"plain text ({after[:40]!r}) follows it" if after else "nothing follows it"
    stops = ", ".join(chat.token(i) for i in chat.stop_token_ids)
    return [
        Doubt(
            f"The chat template writes no stop token after an answer: {seen}. Sampling stops at {stops}, which no "
            "rendered conversation contains, so answers may run to their token limit.",
            "Use a template that ends an answer with a control token of the tokenizer, or add the text that ends it "
            "to the tokenizer's special tokens.",
        )
    ]


def training_doubts(chat: ChatFormat) -> list[Doubt]:
    """Return what keeps conversations from being trained: plain answers, answers with thoughts, or both."""
    refusals = [_refusal(chat, talk) for talk in demonstrations()]
    plain, thoughtful = refusals
    if plain and thoughtful and plain.message == thoughtful.message:
        return [Doubt(f"No answer can be trained. {plain.message}", plain.remedy, blocks=True)]
    blocks = all(refusals)
    found = {
        refusal.message: Doubt(f"{kind} cannot be trained. {refusal.message}", refusal.remedy, blocks)
        for kind, refusal in zip(("Answers without a thought", "Answers with a thought"), refusals, strict=True)
        if refusal is not None
    }
    return list(found.values())


def check_training(chat: ChatFormat) -> None:
    """Reject a template with which no conversation can be trained.

    Raises:
        TemplateError: says why.
    """
    for doubt in training_doubts(chat):
        if doubt.blocks:
            raise TemplateError(doubt.message, doubt.remedy)


def _refusal(chat: ChatFormat, messages: Sequence[Message]) -> PolicyError | None:
    try:
        chat.turns(messages)
        chat.loss_mask(messages)
    except PolicyError as error:
        return error
    return None


def _talk(answers: Sequence[str]) -> list[Message]:
    messages: list[Message] = [{"role": "system", "content": "You write Triton kernels."}]
    for question, answer in zip(_QUESTIONS, answers, strict=True):
        messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return messages
