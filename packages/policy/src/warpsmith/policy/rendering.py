"""Text of conversations by the tokenizer's own template, with workarounds for what the template lacks."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import TemplateError as JinjaError

from warpsmith.policy.errors import MessagesError, TemplateError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

Message = Mapping[str, str]

_GENERATION_TAG = re.compile(r"\{%[-+]?\s*generation\s*[-+]?%\}")
_SYSTEM, _QUESTION = "vsysteminstruction", "wfirstquestion"


class Span(NamedTuple):
    """A half-open range of characters in a rendered conversation."""

    start: int
    end: int


class Renderer:
    """The chat template of one tokenizer.

    Attributes:
        marked: whether the template marks answers with `{% generation %}`.
        folds_system: whether system messages are prepended to the first question, because the template has no system
            role: it rejects one, or drops its text.

    Raises:
        TemplateError: there is no template.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerFast", template_kwargs: Mapping[str, Any]) -> None:
        self._tokenizer = tokenizer
        self._kwargs = dict(template_kwargs)
        self._template = _template_of(tokenizer)
        self.marked = _GENERATION_TAG.search(self._template) is not None
        self.folds_system = False
        self.folds_system = self._lacks_system()

    def text(self, messages: Sequence[Message], *, generation_prompt: bool = False) -> str:
        """Return the text of a conversation.

        Raises:
            MessagesError: a message is not a role and a content, both text.
            TemplateError: the template rejects the conversation.
        """
        given = self._given(messages)
        try:
            text = self._tokenizer.apply_chat_template(
                given, tokenize=False, add_generation_prompt=generation_prompt, **self._kwargs
            )
        except (JinjaError, TypeError) as error:
            roles = ", ".join(m["role"] for m in given)
            raise TemplateError(
                f"The chat template rejects a conversation with the roles {roles}: {error}.",
                "Order the roles as the model's template expects them.",
            ) from error
        return str(text)

    def marks(self, messages: Sequence[Message]) -> list[Span]:
        """Return the ranges that the template marks with `{% generation %}`, in order."""
        from transformers.utils.chat_template_utils import render_jinja_template

        _, marked = render_jinja_template(
            conversations=[self._given(messages)],
            chat_template=self._template,
            return_assistant_tokens_mask=True,
            **{**self._tokenizer.special_tokens_map, **self._kwargs},
        )
        return [Span(*span) for span in marked[0]]

    def _given(self, messages: Sequence[Message]) -> list[dict[str, str]]:
        """Return what the template is called with."""
        _check(messages)
        return _folded(messages) if self.folds_system else [dict(m) for m in messages]

    def _lacks_system(self) -> bool:
        """Return whether a system message fails or is lost while a question renders without one."""
        question = {"role": "user", "content": _QUESTION}
        try:
            text = self.text([{"role": "system", "content": _SYSTEM}, question])
        except TemplateError:
            text = ""
        return _SYSTEM not in text and self._writes(question)

    def _writes(self, question: Message) -> bool:
        try:
            return question["content"] in self.text([question])
        except TemplateError:
            return False


def _folded(messages: Sequence[Message]) -> list[dict[str, str]]:
    """Return the conversation with its leading system messages prepended to the first question."""
    first = next((i for i, m in enumerate(messages) if m["role"] != "system"), len(messages))
    system = "\n\n".join(m["content"] for m in messages[:first])
    rest = [dict(m) for m in messages[first:]]
    if not first:
        return rest
    if rest and rest[0]["role"] == "user":
        return [{**rest[0], "content": f"{system}\n\n{rest[0]['content']}"}, *rest[1:]]
    return [{"role": "user", "content": system}, *rest]


def _template_of(tokenizer: "PreTrainedTokenizerFast") -> str:
    """Return the tokenizer's default chat template."""
    template = tokenizer.chat_template
    if isinstance(template, dict):
        template = template.get("default")
    if not template:
        raise TemplateError(
            "The tokenizer has no chat template.",
            "Set policy.chat_template to qwen, llama3, chatml or a file; or save a chat_template.jinja beside "
            "tokenizer.json, or use an instruction-tuned release.",
        )
    return str(template)


def _check(messages: Sequence[Message]) -> None:
    """Reject anything but a list of messages with role and content."""
    for i, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise MessagesError(f"Message {i} is {type(message).__name__}.", "Pass a mapping with role and content.")
        for key in ("role", "content"):
            if not isinstance(message.get(key), str):
                raise MessagesError(
                    f"Message {i} has no text under {key!r}.", "Give each message a role and a content."
                )
    if not messages:
        raise MessagesError("The conversation is empty.", "Pass at least one message.")
