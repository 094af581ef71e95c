"""Chat templates: prompts, completions, and the exact tokens of an assistant's turns.

Everything is derived from the tokenizer's own template, as text with character positions, and carried over to tokens
by their offsets; no layout is known by name. How the turns are found is told in `docs/policy.md`.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from jinja2 import TemplateError as JinjaError

from warpsmith.policy.errors import MessagesError, TemplateError, TokenizerError

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

Message = Mapping[str, str]

_GENERATION_TAG = re.compile(r"\{%-?\s*generation\s*-?%\}")
_QUESTION, _ANSWER, _QUESTION_2, _ANSWER_2 = "wfirstquestion", "xfirstanswer", "ysecondquestion", "zsecondanswer"


class Turn(NamedTuple):
    """One assistant turn as a sampler sees it: what it is given, and what it answers (with the end-of-turn token)."""

    prompt_ids: list[int]
    completion_ids: list[int]


class Span(NamedTuple):
    """A half-open range of characters in a rendered conversation."""

    start: int
    end: int


class ChatFormat:
    """The chat format of one tokenizer.

    Args:
        tokenizer: a fast tokenizer with a chat template.
        stop_token_ids: further ids that end a turn, for example those of the model's generation config.
        template_kwargs: variables handed to the template, for example `{"enable_thinking": False}`.

    Raises:
        TokenizerError: the tokenizer gives no offsets.
        TemplateError: there is no template, it fails, or it has no generation prompt.
    """

    def __init__(
        self,
        tokenizer: "PreTrainedTokenizerFast",
        *,
        stop_token_ids: Sequence[int] = (),
        template_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.template_kwargs = dict(template_kwargs or {})
        self._template = _template_of(tokenizer)
        self._backend = _untrimmed_backend(tokenizer)
        self._header, self._prefill, after = self._probe()
        self.end_of_turn_id = self._special_at_start(after)
        eos = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
        end = [] if self.end_of_turn_id is None else [self.end_of_turn_id]
        self._stop_token_ids = tuple(dict.fromkeys([*end, *eos, *stop_token_ids]))
        self._stop_texts = tuple(self.token(i) for i in self._stop_token_ids)

    # The interface -------------------------------------------------------------------------------------------------

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        """Ids that end an assistant's turn; the template's own end-of-turn token stands first."""
        return self._stop_token_ids

    @property
    def generation_prompt(self) -> str:
        """What the template appends to ask for an answer: the role header, and a prefill where it has one."""
        return self._header + self._prefill

    @property
    def opens_thoughts(self) -> bool:
        """Whether the generation prompt ends inside thoughts: it has a `<think>` that no `</think>` follows."""
        _, opened, rest = self.generation_prompt.rpartition("<think>")
        return bool(opened) and "</think>" not in rest

    def render(self, messages: Sequence[Message], *, generation_prompt: bool = False) -> str:
        """Return the text of a conversation.

        Raises:
            MessagesError: a message is not a role and a content, both text.
            TemplateError: the template refuses the conversation.
        """
        _check(messages)
        try:
            text = self.tokenizer.apply_chat_template(
                [dict(m) for m in messages],
                tokenize=False,
                add_generation_prompt=generation_prompt,
                **self.template_kwargs,
            )
        except JinjaError as error:
            roles = ", ".join(m["role"] for m in messages)
            raise TemplateError(
                f"The chat template refuses a conversation of the roles {roles}: {error}.",
                "Order the roles as the model's template expects them.",
            ) from error
        return str(text)

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`; control tokens in it become control tokens, and none is added."""
        ids: list[int] = self._backend.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of `ids` without control tokens."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def token(self, token_id: int) -> str:
        """Return the text of one token, control tokens included."""
        return str(self.tokenizer.decode([token_id], clean_up_tokenization_spaces=False))

    def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        """Return the ids a sampler is given to answer `messages`: the conversation and the generation prompt."""
        return self.encode(self.render(messages, generation_prompt=True))

    def completion_ids(self, messages: Sequence[Message]) -> list[int]:
        """Return the ids of the last message, an assistant's, as answered to `prompt_ids(messages[:-1])`.

        Prompt and completion are encoded apart, as they are when a completion is sampled. The end-of-turn token is
        included; what the template writes after it is not.

        Raises:
            MessagesError: the last message is not an assistant's.
        """
        if not messages or messages[-1].get("role") != "assistant":
            raise MessagesError("The last message is not an assistant's.", "End the conversation with the answer.")
        text = self.render(messages)
        span = self._spans(messages, text)[-1]
        return self.encode(text[span.start : span.end])

    def turns(self, messages: Sequence[Message]) -> list[Turn]:
        """Return every assistant turn with the prompt it answers, each as it was when it was the last.

        Right also for templates that rewrite earlier turns (Qwen3 drops their thoughts), where one row of ids cannot
        hold the whole conversation as it was sampled.
        """
        ends = [i for i, message in enumerate(messages) if message.get("role") == "assistant"]
        return [Turn(self.prompt_ids(messages[:i]), self.completion_ids(messages[: i + 1])) for i in ends]

    def keeps_history(self, messages: Sequence[Message]) -> bool:
        """Tell whether each turn's prompt and completion are a prefix of the next turn's prompt, id by id."""
        turns = self.turns(messages)
        return all(
            extends(later.prompt_ids, [*earlier.prompt_ids, *earlier.completion_ids])
            for earlier, later in pairwise(turns)
        )

    def loss_mask(self, messages: Sequence[Message]) -> tuple[list[int], list[int]]:
        """Return the ids of the whole conversation, and 1 for each that belongs to an assistant's turn, else 0.

        A turn begins after the role header (and after the prefill, where the template has one) and ends with the
        end-of-turn token. A token that also holds characters from outside a turn is 0: no sampler could have
        produced it there.

        Raises:
            TemplateError: a turn cannot be located in the rendered conversation.
        """
        text = self.render(messages)
        encoding = self._backend.encode(text, add_special_tokens=False)
        return encoding.ids, _mask(encoding.offsets, self._spans(messages, text))

    def inert(self, text: str) -> str:
        """Return `text` with every control token broken by a space, so that it cannot open or close a turn.

        For text from outside, such as an error message that quotes a completion.
        """
        for token in self._control_tokens():
            text = text.replace(token, token[:1] + " " + token[1:])
        return text

    # How turns are found -------------------------------------------------------------------------------------------

    def _probe(self) -> tuple[str, str, str]:
        """Return the role header of an assistant, the prefill of the generation prompt, and what follows an answer.

        The header is what all of these have in common after a question: the generation prompt, an answer in the
        middle of a conversation, and an answer at its end.
        """
        question = {"role": "user", "content": _QUESTION}
        asked = _after(self.render([question]), _QUESTION)
        prompted = _after(self.render([question], generation_prompt=True), _QUESTION)
        if asked == prompted:
            raise TemplateError(
                "The chat template has no generation prompt: with add_generation_prompt it renders the same text.",
                "Use the template of an instruction-tuned release, or add a branch for add_generation_prompt.",
            )
        answer = {"role": "assistant", "content": _ANSWER}
        question_2 = {"role": "user", "content": _QUESTION_2}
        answer_2 = {"role": "assistant", "content": _ANSWER_2}
        talk = self.render([question, answer, question_2, answer_2])
        first = _after(talk, _QUESTION).partition(_ANSWER)[0]
        second = _after(talk, _QUESTION_2).partition(_ANSWER_2)[0]
        common = _common_start(prompted, first, second)
        header = common[len(_common_start(asked, common)) :]
        if not header:
            raise TemplateError(
                "The chat template gives an assistant's turn no header of its own.",
                "Use a template that writes the same header before an answer and at the end of a prompt.",
            )
        return header, prompted[len(common) :], _after(talk, _ANSWER_2)

    def _spans(self, messages: Sequence[Message], text: str) -> list[Span]:
        """Return where each assistant's turn stands in `text`, the rendered `messages`."""
        if _GENERATION_TAG.search(self._template):
            return [self._with_stop(span, text) for span in self._marked_spans(messages)]
        found = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
        return [self._span(messages, i, text) for i in found]

    def _marked_spans(self, messages: Sequence[Message]) -> list[Span]:
        """Return the ranges that the template itself marks with `{% generation %}`."""
        from transformers.utils.chat_template_utils import render_jinja_template

        _, marked = render_jinja_template(
            conversations=[[dict(m) for m in messages]],
            chat_template=self._template,
            return_assistant_tokens_mask=True,
            **{**self.tokenizer.special_tokens_map, **self.template_kwargs},
        )
        return [Span(*span) for span in marked[0]]

    def _span(self, messages: Sequence[Message], index: int, text: str) -> Span:
        """Locate one turn: render with its content replaced, and see what stands before and after.

        What the template does to a content (trimming, splitting off thoughts) happens between the two.
        """
        stand_in = _unused_word(messages)
        probe = self.render(
            [*messages[:index], {**messages[index], "content": stand_in}, *messages[index + 1 :]],
        )
        before, _, after = probe.partition(stand_in)
        start, end = before.rfind(self._header) + len(self._header), len(text) - len(after)
        if probe.count(stand_in) != 1 or self._header not in before or end < start:
            raise _unlocated(index)
        if text[:start] != before[:start] or not text.endswith(after):
            raise _unlocated(index)
        if text.startswith(self._prefill, start):
            start += len(self._prefill)
        return self._with_stop(Span(start, max(start, end)), text)

    def _with_stop(self, span: Span, text: str) -> Span:
        """Extend `span` by the stop token that follows it, if one does."""
        for stop in self._stop_texts:
            if text.startswith(stop, span.end):
                return Span(span.start, span.end + len(stop))
        return span

    # Tokens --------------------------------------------------------------------------------------------------------

    def _special_at_start(self, text: str) -> int | None:
        """Return the id of the control token that `text` begins with, if it does."""
        ids = self.encode(text)
        return ids[0] if ids and ids[0] in self.tokenizer.added_tokens_decoder else None

    def _control_tokens(self) -> list[str]:
        return [str(token.content) for token in self.tokenizer.added_tokens_decoder.values() if token.special]


def extends(ids: Sequence[int], prefix: Sequence[int]) -> bool:
    """Tell whether `ids` begin with `prefix`: only then may two turns share one training row."""
    return len(ids) >= len(prefix) and list(ids[: len(prefix)]) == list(prefix)


def _mask(offsets: Sequence[tuple[int, int]], spans: Sequence[Span]) -> list[int]:
    """Return 1 for each token that lies wholly inside a span; both lists are in order of position."""
    mask, current = [], 0
    for start, end in offsets:
        while current < len(spans) and spans[current].end < end:
            current += 1
        mask.append(int(current < len(spans) and spans[current].start <= start))
    return mask


def _template_of(tokenizer: "PreTrainedTokenizerFast") -> str:
    """Return the tokenizer's default chat template."""
    template = tokenizer.chat_template
    if isinstance(template, dict):
        template = template.get("default")
    if not template:
        raise TemplateError(
            "The tokenizer has no chat template.",
            "Use an instruction-tuned release, or save a chat_template.jinja beside tokenizer.json.",
        )
    return str(template)


def _untrimmed_backend(tokenizer: "PreTrainedTokenizerFast") -> "Tokenizer":
    """Return a copy of the tokenizer whose offsets cover every character.

    Post-processors of byte-level tokenizers may trim spaces off the offsets, which would hide that a token reaches
    over the edge of a turn.
    """
    from tokenizers import Tokenizer

    if not tokenizer.is_fast:
        raise TokenizerError(
            f"{type(tokenizer).__name__} gives no character offsets, so no exact mask.",
            "Save the tokenizer as tokenizer.json (AutoTokenizer.from_pretrained(...).save_pretrained(...)).",
        )
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.post_processor = None
    backend.no_truncation()
    backend.no_padding()
    return backend


def _check(messages: Sequence[Message]) -> None:
    """Refuse what is not a list of role and content."""
    for i, message in enumerate(messages):
        if not isinstance(message, Mapping):
            raise MessagesError(f"Message {i} is {type(message).__name__}.", "Give a mapping of role and content.")
        for key in ("role", "content"):
            if not isinstance(message.get(key), str):
                raise MessagesError(
                    f"Message {i} has no text under {key!r}.", "Give each message a role and a content."
                )
    if not messages:
        raise MessagesError("The conversation is empty.", "Give at least one message.")


def _after(text: str, marker: str) -> str:
    """Return what follows `marker`, which the template must have written once."""
    _, found, rest = text.partition(marker)
    if not found:
        raise TemplateError("The chat template drops the content of a message.", "Use a template that writes it.")
    return rest


def _common_start(*texts: str) -> str:
    """Return the longest text that all of `texts` begin with."""
    alike = takewhile(lambda column: len(set(column)) == 1, zip(*texts, strict=False))
    return "".join(column[0] for column in alike)


def _unused_word(messages: Sequence[Message]) -> str:
    """Return a word that occurs in no message."""
    everything = "\n".join(value for message in messages for value in message.values() if isinstance(value, str))
    word = "standin"
    while word in everything:
        word += "q"
    return word


def _unlocated(index: int) -> TemplateError:
    return TemplateError(
        f"The assistant's turn in message {index} cannot be located: its content changes the text around it.",
        "Mark the turn in the template with {% generation %} and {% endgeneration %}.",
    )
