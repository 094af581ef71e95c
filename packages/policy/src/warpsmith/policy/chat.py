"""Chat templates: prompts, completions, and the exact tokens of an assistant's turns.

Everything is derived from the tokenizer's own template, as text with character positions, and mapped to tokens by
their offsets; no format is hard-coded. `docs/policy.md` says how turns are found.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from warpsmith.policy.errors import MessagesError, TemplateError, TokenizerError
from warpsmith.policy.rendering import Message, Renderer, Span
from warpsmith.policy.sampled import THINK, Answer, Layout

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

__all__ = ["ChatFormat", "Message", "Span", "Turn", "extends"]

_QUESTION, _ANSWER, _QUESTION_2, _ANSWER_2 = "wfirstquestion", "xfirstanswer", "ysecondquestion", "zsecondanswer"


class Turn(NamedTuple):
    """One assistant turn as a sampler sees it: its prompt and its answer (with the end-of-turn token)."""

    prompt_ids: list[int]
    completion_ids: list[int]


class ChatFormat:
    """The chat format of one tokenizer.

    Args:
        tokenizer: a fast tokenizer with a chat template.
        stop_token_ids: more ids that end a turn, for example those of the model's generation config.
        template_kwargs: variables passed to the template, for example `{"enable_thinking": False}`.

    Raises:
        TokenizerError: the tokenizer has no offsets.
        TemplateError: there is no template, it fails, it has no generation prompt, or no token ends an answer.
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
        self._renderer = Renderer(tokenizer, self.template_kwargs)
        self._backend = _untrimmed_backend(tokenizer)
        header, prefill, between, self.text_after_answer = self._probe()
        eos = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
        named = [*eos, *stop_token_ids]
        ending, self.end_of_turn_id = self._ending(self.text_after_answer, between, named)
        end = [] if self.end_of_turn_id is None else [self.end_of_turn_id]
        self._stop_token_ids = tuple(dict.fromkeys([*end, *named]))
        if not self._stop_token_ids:
            raise TemplateError(
                "No token ends an answer: the chat template writes no control token after one, and there is no EOS.",
                "Set eos_token in tokenizer_config.json, or eos_token_id in generation_config.json.",
            )
        self._layout = Layout(header, prefill, ending, tuple(self.token(i) for i in self._stop_token_ids))

    # The interface -------------------------------------------------------------------------------------------------

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        """Ids that end an assistant's turn; the template's own end-of-turn token comes first."""
        return self._stop_token_ids

    @property
    def generation_prompt(self) -> str:
        """What the template appends to ask for an answer: the role header and, in some templates, a prefill."""
        return self._layout.header + self._layout.prefill

    @property
    def opens_thoughts(self) -> bool:
        """Whether the generation prompt ends inside thoughts: it has a `<think>` without a later `</think>`."""
        return self._layout.opens_thoughts

    @property
    def folds_system(self) -> bool:
        """Whether system messages are prepended to the first question: the template has no system role."""
        return self._renderer.folds_system

    def render(self, messages: Sequence[Message], *, generation_prompt: bool = False) -> str:
        """Return the text of a conversation.

        Raises:
            MessagesError: a message is not a role and a content, both text.
            TemplateError: the template rejects the conversation.
        """
        return self._renderer.text(messages, generation_prompt=generation_prompt)

    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`; control tokens in it become control tokens, and none are added."""
        ids: list[int] = self._backend.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of `ids` without control tokens."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def token(self, token_id: int) -> str:
        """Return the text of one token, control tokens included."""
        return str(self.tokenizer.decode([token_id], clean_up_tokenization_spaces=False))

    def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        """Return the prompt ids of a sampler that answers `messages`: the conversation and the generation prompt."""
        return self.encode(self.render(messages, generation_prompt=True))

    def completion_ids(self, messages: Sequence[Message]) -> list[int]:
        """Return the ids of the last message, an assistant's, as a sampled answer to `prompt_ids(messages[:-1])`.

        Prompt and completion are encoded separately, as in sampling. The end-of-turn token is included; what the
        template writes after it is not. A thought that the template drops is restored.

        Raises:
            MessagesError: the last message is not an assistant's.
            TemplateError: what the template writes cannot have been sampled; see `docs/policy.md`.
        """
        if not messages or messages[-1].get("role") != "assistant":
            raise MessagesError("The last message is not an assistant's.", "End the conversation with the answer.")
        text = self.render(messages)
        return self.encode(self._last(messages, text, self._spans(messages, text)).completion(self._layout))

    def turns(self, messages: Sequence[Message]) -> list[Turn]:
        """Return every assistant turn with its prompt, each as it was when it was the last turn.

        Also correct for templates that rewrite earlier turns (Qwen3 drops their thoughts), for which one row of ids
        cannot hold the whole conversation as it was sampled.
        """
        ends = [i for i, message in enumerate(messages) if message.get("role") == "assistant"]
        return [Turn(self.prompt_ids(messages[:i]), self.completion_ids(messages[: i + 1])) for i in ends]

    def keeps_history(self, messages: Sequence[Message]) -> bool:
        """Return whether each turn's prompt and completion are a prefix of the next turn's prompt, id by id."""
        turns = self.turns(messages)
        return all(
            extends(later.prompt_ids, [*earlier.prompt_ids, *earlier.completion_ids])
            for earlier, later in pairwise(turns)
        )

    def loss_mask(self, messages: Sequence[Message]) -> tuple[list[int], list[int]]:
        """Return the ids of the whole conversation, and for each id 1 if it belongs to an assistant's turn, else 0.

        A turn starts after the role header (and after the prefill, if the template has one) and ends with the
        end-of-turn token. A token that also has characters from outside a turn is 0: no sampler could have produced it
        there. An answer at the end is masked as it was sampled, as in `turns`.

        Raises:
            TemplateError: a turn cannot be located in the rendered conversation, or the last one cannot have been
                sampled.
        """
        text = self.render(messages)
        spans = self._spans(messages, text)
        if messages[-1]["role"] == "assistant":
            last = self._last(messages, text, spans)
            sampled = last.prompt + last.completion(self._layout)
            spans[-1] = Span(len(last.prompt), len(sampled))
            if not text.startswith(sampled):
                text = sampled + text[last.span.end :]
        encoding = self._backend.encode(text, add_special_tokens=False)
        return encoding.ids, _mask(encoding.offsets, spans)

    def inert(self, text: str) -> str:
        """Return `text` with a space inside every control token, so that it cannot open or close a turn.

        For untrusted text, such as an error message that quotes a completion.
        """
        for token in self._control_tokens():
            text = text.replace(token, token[:1] + " " + token[1:])
        return text

    # How turns are found -------------------------------------------------------------------------------------------

    def _probe(self) -> tuple[str, str, str, str]:
        """Return an assistant's header, the prompt's prefill, and what follows an answer: an earlier one, and the last.

        The header is what these have in common after a question: the generation prompt, an answer in the middle of a
        conversation, and an answer at its end.
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
        common = common.partition(THINK)[0] if THINK in common[len(_common_start(asked, common)) :] else common
        header = common[len(_common_start(asked, common)) :]
        if not header:
            raise TemplateError(
                "The chat template writes no header before an assistant's turn.",
                "Use a template that writes the same header before an answer and at the end of a prompt.",
            )
        between = talk.partition(_ANSWER)[2].partition(_QUESTION_2)[0]
        return header, prompted[len(common) :], between, _after(talk, _ANSWER_2)

    def _spans(self, messages: Sequence[Message], text: str) -> list[Span]:
        """Return the position of each assistant's turn in `text`, the rendered `messages`."""
        found = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
        if not self._renderer.marked:
            return [self._span(messages, i, text) for i in found]
        marks = self._renderer.marks(messages)
        try:
            spans = [self._span(messages, i, text) for i in found]
        except TemplateError:
            return self._of_marks(marks, len(found), text)
        self._check_marks(marks, spans, text)
        return spans

    def _span(self, messages: Sequence[Message], index: int, text: str) -> Span:
        """Locate one turn: render with its content replaced, and compare the text before and after.

        What the template does to the content (trimming, splitting off thoughts) happens between the two.
        """
        stand_in = _unused_word(messages)
        probe = self.render(
            [*messages[:index], {**messages[index], "content": stand_in}, *messages[index + 1 :]],
        )
        before, _, after = probe.partition(stand_in)
        header = self._layout.header
        start, end = before.rfind(header) + len(header), len(text) - len(after)
        if probe.count(stand_in) != 1 or header not in before or end < start:
            raise _unlocated(index)
        if text[:start] != before[:start] or not text.endswith(after):
            raise _unlocated(index)
        start = self._after_prefill(start, text)
        return self._layout.ended(Span(start, max(start, end)), text)

    def _after_prefill(self, start: int, text: str) -> int:
        prefill = self._layout.prefill
        return start + len(prefill) if text.startswith(prefill, start) else start

    def _of_marks(self, marks: Sequence[Span], answers: int, text: str) -> list[Span]:
        """Return the turns of a template in which only the marks locate them; a header separates two turns."""
        header, turns = self._layout.header, list[Span]()
        for mark in marks:
            opened = text.rfind(header, turns[-1].end if turns else 0, mark.start + len(header))
            if turns and opened < 0:
                turns[-1] = Span(turns[-1].start, mark.end)
            else:
                start = self._after_prefill(opened + len(header) if opened >= 0 else mark.start, text)
                turns.append(Span(start, max(start, mark.end)))
        if len(turns) != answers:
            raise TemplateError(
                f"The chat template marks {len(turns)} turns with {{% generation %}}, the conversation has {answers}.",
                "Mark only what is written for each answer.",
            )
        return [self._until_stop(turn, text) for turn in turns]

    def _until_stop(self, span: Span, text: str) -> Span:
        """Return `span` up to its first stop token, or extended by the one that follows it."""
        ends = [text.find(stop, span.start, span.end) + len(stop) for stop in self._layout.stops if stop]
        inside = [end for end, stop in zip(ends, self._layout.stops, strict=False) if end >= span.start + len(stop)]
        return Span(span.start, min(inside)) if inside else self._layout.ended(span, text)

    def _check_marks(self, marks: Sequence[Span], spans: Sequence[Span], text: str) -> None:
        """Reject a template whose `{% generation %}` excludes what a sampler writes, or includes what it is given.

        Several marks in one turn count as one, with the text between them. A mark may enclose header, prefill, or
        control tokens after the stop: none of these are trained.
        """
        for span in spans:
            left_out = "".join(_outside(span, _joined(span, marks), text)).removesuffix(self._layout.ending)
            if left_out.strip() and left_out.strip() not in self._layout.stops:
                raise TemplateError(
                    f"{{% generation %}} leaves out {left_out[:40]!r}, which the model writes in its answer.",
                    "Mark everything between the generation prompt and the stop token.",
                )
        for mark in marks:
            before, *after = _outside(mark, spans, text)
            enclosed = "" if self.generation_prompt.endswith(before) else before
            enclosed = self._uncontrolled("".join([enclosed, *after]))
            if enclosed.strip():
                raise TemplateError(
                    f"{{% generation %}} encloses {enclosed[:40]!r}, which is not part of an answer.",
                    "Mark only what the model writes for each answer.",
                )

    def _last(self, messages: Sequence[Message], text: str, spans: Sequence[Span]) -> Answer:
        """Return the last answer, which ends `messages`."""
        prompt = self.render(messages[:-1], generation_prompt=True)
        return Answer(len(messages) - 1, messages[-1]["content"], prompt, text, spans[-1])

    # Tokens --------------------------------------------------------------------------------------------------------

    def _ending(self, after: str, between: str, named: Sequence[int]) -> tuple[str, int | None]:
        """Return what follows an answer up to its stop token, and that token's id.

        Of several adjacent control tokens the stop is the first one that the tokenizer or the generation config names,
        otherwise the first. Tokens that follow the last answer but no earlier one are ignored.

        Args:
            after: what follows the last answer.
            between: what follows an earlier one, up to the next question.
            named: the stop ids of tokenizer and generation config.
        """
        run, earlier = self._controls_at_start(after), self._controls_at_start(between)
        run = run[: sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(run, earlier, strict=False)))] or run
        if not run:
            return "", None
        chosen = next((i for i, token in enumerate(run) if token in named), 0)
        written = "".join(self.token(token) for token in run[: chosen + 1])
        return after[: len(after) - len(after.lstrip())] + written, run[chosen]

    def _controls_at_start(self, text: str) -> list[int]:
        """Return the adjacent control tokens at the start of `text`, after any whitespace."""
        return list(takewhile(self.tokenizer.added_tokens_decoder.__contains__, self.encode(text.lstrip())))

    def _uncontrolled(self, text: str) -> str:
        """Return `text` without control tokens."""
        for token in self._control_tokens():
            text = text.replace(token, "")
        return text

    def _control_tokens(self) -> list[str]:
        return [str(token.content) for token in self.tokenizer.added_tokens_decoder.values() if token.special]


def extends(ids: Sequence[int], prefix: Sequence[int]) -> bool:
    """Return whether `ids` start with `prefix`: only then can two turns share one training row."""
    return len(ids) >= len(prefix) and list(ids[: len(prefix)]) == list(prefix)


def _mask(offsets: Sequence[tuple[int, int]], spans: Sequence[Span]) -> list[int]:
    """Return 1 for each token that is completely inside a span, else 0; both lists are sorted by position."""
    mask, current = [], 0
    for start, end in offsets:
        while current < len(spans) and spans[current].end < end:
            current += 1
        mask.append(int(current < len(spans) and spans[current].start <= start))
    return mask


def _untrimmed_backend(tokenizer: "PreTrainedTokenizerFast") -> "Tokenizer":
    """Return a copy of the tokenizer whose offsets cover every character.

    Post-processors of byte-level tokenizers can trim spaces from the offsets, which would hide that a token crosses the
    edge of a turn.
    """
    from tokenizers import Tokenizer

    if not tokenizer.is_fast:
        raise TokenizerError(
            f"{type(tokenizer).__name__} has no character offsets, which an exact mask needs.",
            "Save the tokenizer as tokenizer.json (AutoTokenizer.from_pretrained(...).save_pretrained(...)).",
        )
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.post_processor = None
    backend.no_truncation()
    backend.no_padding()
    return backend


def _joined(span: Span, marks: Sequence[Span]) -> list[Span]:
    """Return the range from the first to the last of the marks that overlap `span`; empty if none do."""
    met = [mark for mark in marks if mark.end > span.start and mark.start < span.end]
    return [Span(met[0].start, met[-1].end)] if met else []


def _outside(span: Span, others: Sequence[Span], text: str) -> list[str]:
    """Return the pieces of `span` outside of the overlapping `others`, which are sorted."""
    pieces, at = [], span.start
    for other in others:
        if other.end > at and other.start < span.end:
            pieces.append(text[at : max(at, other.start)])
            at = other.end
    return [*pieces, text[at : span.end]]


def _after(text: str, marker: str) -> str:
    """Return what follows `marker`, which the template must have written."""
    _, found, rest = text.partition(marker)
    if not found:
        raise TemplateError("The chat template drops the content of a message.", "Use a template that writes it.")
    return rest


def _common_start(*texts: str) -> str:
    """Return the longest common prefix of `texts`."""
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
