"""Chat templates by name, for models without one: `qwen`, `llama3`, `chatml`."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from warpsmith.policy.errors import TemplateError
from warpsmith.records.text import read_text

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

CONTROL_TOKENS: Final = {
    "qwen": ("<|im_start|>", "<|im_end|>"),
    "llama3": ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    "chatml": ("<|im_start|>", "<|im_end|>"),
}
"""The templates by name, and the tokens that a tokenizer must have for each."""


def template_text(template: str) -> str:
    """Return the text of a template: a name of `CONTROL_TOKENS`, or a file.

    Raises:
        TemplateError: it is neither, or the file cannot be read.
    """
    path = Path(__file__).with_name(f"{template}.jinja") if template in CONTROL_TOKENS else Path(template)
    remedy = f"Set policy.chat_template to a file, or to one of {', '.join(CONTROL_TOKENS)}."
    return read_text(path, TemplateError, "chat template", remedy).strip()


def set_template(tokenizer: "PreTrainedTokenizerFast", template: str) -> None:
    """Give a tokenizer a chat template, in place of its own if it has one.

    Raises:
        TemplateError: there is no such template, or the tokenizer lacks a token that it writes.
    """
    text = template_text(template)
    vocabulary = tokenizer.get_vocab()
    if absent := [token for token in CONTROL_TOKENS.get(template, ()) if token not in vocabulary]:
        raise TemplateError(
            f"The chat template {template} writes {', '.join(absent)}, and the tokenizer has no such token.",
            f"Choose another of {', '.join(CONTROL_TOKENS)}, or write a template of the tokenizer's own control tokens "
            "to a file and name it.",
        )
    tokenizer.chat_template = text
