"""An answer as a sampler writes it after its prompt: no repeated prefill, complete thoughts, one final stop token."""

import re
from dataclasses import dataclass

from warpsmith.policy.errors import MessagesError, TemplateError
from warpsmith.policy.rendering import Span

THINK, END_THINK = "<think>", "</think>"
_TAGS = re.compile(f"{THINK}|{END_THINK}")


@dataclass(frozen=True)
class Layout:
    """What a template writes around an answer.

    Attributes:
        header: the role header of an assistant, which ends every prompt except for a prefill.
        prefill: what follows the header in the generation prompt; a sampler is given it and does not write it.
        ending: what follows an answer, up to and including the stop token; empty if the template writes none.
        stops: texts of all stop tokens.
    """

    header: str
    prefill: str
    ending: str
    stops: tuple[str, ...]

    @property
    def opens_thoughts(self) -> bool:
        """Whether the prefill or the header ends inside a thought."""
        _, opened, rest = (self.header + self.prefill).rpartition(THINK)
        return bool(opened) and END_THINK not in rest

    def ended(self, span: Span, text: str) -> Span:
        """Extend `span` by the stop token that follows it in `text`, if there is one."""
        for ending in (self.ending, *self.stops):
            if ending and text.startswith(ending, span.end):
                return Span(span.start, span.end + len(ending))
        return span


@dataclass(frozen=True)
class Answer:
    """The last answer of a conversation.

    Attributes:
        index: the index of its message.
        content: the message's content.
        prompt: the text that asks for it.
        text: the whole conversation.
        span: range of the answer in `text`, with its stop token.
    """

    index: int
    content: str
    prompt: str
    text: str
    span: Span

    def completion(self, layout: Layout) -> str:
        """Return what a sampler writes after `prompt`.

        Raises:
            TemplateError: the template writes something that no sampler could have written there, or drops text.
            MessagesError: the content contains a stop token, at which a sampler would have stopped.
        """
        written = self._behind_prompt(layout)
        if END_THINK in self.content and END_THINK not in written:
            written = self._with_thought(written, layout)
        self._check_thoughts(written, layout)
        stop = next((stop for stop in layout.stops if stop and written.endswith(stop)), "")
        if not stop:
            raise self._unended()
        self._check_inside(written.removesuffix(stop), layout)
        self._check_whole(written)
        return written

    def _behind_prompt(self, layout: Layout) -> str:
        """Return what the template writes after the prompt, or after the prompt without its prefill."""
        if self.text.startswith(self.prompt) and len(self.prompt) <= self.span.end:
            return self.text[len(self.prompt) : self.span.end]
        if self.prompt != self.text[: self.span.start] + layout.prefill:
            raise TemplateError(
                f"The text before the answer in message {self.index} differs from the prompt that asks for it.",
                "Use the released chat_template.jinja of the model: before an answer it must render the prompt.",
            )
        return _without_opening(self.text[self.span.start : self.span.end], layout)

    def _with_thought(self, written: str, layout: Layout) -> str:
        """Restore the thought that the template removed from the answer, if it changed nothing else."""
        thought, closing, rest = self.content.rpartition(END_THINK)
        body = written.removesuffix(layout.ending)
        if body.strip() != rest.strip():
            raise TemplateError(
                f"The chat template drops the thought of the answer in message {self.index}.",
                f"Use a template that keeps the last answer's thought, or remove {THINK} to {END_THINK} from it.",
            )
        space = rest[: len(rest) - len(rest.lstrip())]
        return _without_opening(thought + closing + space + written.lstrip(), layout)

    def _check_thoughts(self, written: str, layout: Layout) -> None:
        """Reject an unclosed thought, and two thoughts in a row unless the answer's own text has them."""
        opened = THINK in _last_part(layout.prefill + written) and THINK not in _last_part(self.content)
        if opened or (layout.opens_thoughts and END_THINK not in written):
            raise TemplateError(
                f"The prompt opens a thought ({THINK}) that the answer in message {self.index} does not end.",
                f"Give the answer its thought and {END_THINK}, or turn thinking off with policy.template_kwargs "
                "if the template has a variable for it.",
            )
        own, closed = self.content.count(END_THINK), (layout.prefill + written).count(END_THINK)
        twice = END_THINK in layout.prefill and END_THINK in written
        if own and (twice or closed > own):
            raise TemplateError(
                f"The answer in message {self.index} has a thought, and the template puts another one before it.",
                f"Remove {THINK} to {END_THINK} from the answer, or turn thinking on with policy.template_kwargs.",
            )

    def _check_inside(self, written: str, layout: Layout) -> None:
        """Reject a stop token before the end, even if the template drops it: a sampler would have stopped there."""
        for stop in layout.stops:
            if stop and (stop in written or stop in self.content):
                raise MessagesError(
                    f"The answer in message {self.index} continues after the stop token {stop}.",
                    "Remove the token from the answer; the template writes it at the end.",
                )

    def _check_whole(self, written: str) -> None:
        """Reject a template that drops text: Qwen3's does before the last `<think>` and between two `</think>`."""
        at = 0
        for part in map(str.strip, _TAGS.split(self.content)):
            found = written.find(part, at)
            if found < 0:
                raise TemplateError(
                    f"The chat template drops {part[:40]!r} from the answer in message {self.index}.",
                    f"Give the answer at most one thought, {THINK} to {END_THINK}, with nothing before it, or use a "
                    "template that writes each answer in full.",
                )
            at = found + len(part)

    def _unended(self) -> TemplateError:
        after = self.text[self.span.end :].strip()
        seen = f"plain text follows it ({after[:40]!r})" if after else "nothing follows it"
        return TemplateError(
            f"The chat template writes no stop token after the answer in message {self.index}: {seen}.",
            "Use a template that ends an answer with a control token of the tokenizer, or add the text that ends it "
            "to the tokenizer's special tokens.",
        )


def _last_part(text: str) -> str:
    """Return what follows the last `</think>`."""
    return text.rpartition(END_THINK)[2]


def _without_opening(answer: str, layout: Layout) -> str:
    """Return an answer without the opening `<think>` that the prompt already has."""
    start = answer.lstrip()
    if not (layout.opens_thoughts and start.startswith(THINK)):
        return answer
    return start.removeprefix(THINK).removeprefix(layout.prefill.rpartition(THINK)[2])
