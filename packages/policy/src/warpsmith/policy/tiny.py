"""A small decoder with its own byte-level BPE, for tests and for runs on machines without a GPU."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from warpsmith.policy.chat_templates import template_text
from warpsmith.policy.config import TinySettings
from warpsmith.policy.errors import PolicyError
from warpsmith.policy.files import appearing_directory

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

PAD, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

CHATML = template_text("chatml")
"""The ChatML format: no default system message, no rewriting of earlier turns."""


def build_tiny(
    out_dir: str | Path,
    corpus: Iterable[str],
    *,
    vocab_size: int = 1024,
    layers: int = 4,
    hidden: int = 192,
    heads: int = 6,
    kv_heads: int = 2,
    seed: int = 0,
) -> Path:
    """Write a Hugging Face directory with a randomly initialised Qwen3 decoder and a tokenizer trained on `corpus`.

    Args:
        out_dir: the directory to create; it must be absent or empty.
        corpus: texts of the kind that the model will read and write; iterated once.
        vocab_size: upper bound of the vocabulary; a small corpus yields fewer tokens, and the model gets that size.
        layers, hidden, heads, kv_heads: the decoder's sizes; `hidden / heads` is the width of a head.
        seed: seed of the weights. The same arguments give the same bytes.

    Returns:
        The directory.

    Raises:
        PolicyError: the sizes do not fit each other, or the corpus has no text.
        CheckpointError: `out_dir` is not empty.
    """
    settings = _settings(vocab_size=vocab_size, layers=layers, hidden=hidden, heads=heads, kv_heads=kv_heads, seed=seed)
    with appearing_directory(Path(out_dir)) as scratch:
        tokenizer = train_tokenizer(corpus, settings)
        tokenizer.save_pretrained(scratch)
        _initialise(settings, tokenizer).save_pretrained(scratch)
    return Path(out_dir)


def _settings(**values: int) -> TinySettings:
    try:
        return TinySettings(**values)
    except ValidationError as error:
        causes = "; ".join(
            f"{'.'.join(map(str, e['loc'])) or 'sizes'}: {e['msg'].removeprefix('Value error, ')}"
            for e in error.errors()
        )
        raise PolicyError(f"The sizes of the model are invalid: {causes}.", "Change the sizes named.") from None


def train_tokenizer(corpus: Iterable[str], settings: TinySettings) -> "PreTrainedTokenizerFast":
    """Train a byte-level BPE that merges across spaces but never across a newline.

    Lines of code recur, so a whole line can become one token. Each newline stays a separate token: the chat template's
    headers end in one, so a completion never merges with its prompt.

    Raises:
        PolicyError: the corpus has no text.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex("\n"), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=settings.vocab_size,
        special_tokens=[PAD, TURN_START, TURN_END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    backend.train_from_iterator(_checked(corpus), trainer=trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token=TURN_END,
        pad_token=PAD,
        chat_template=CHATML,
        model_max_length=settings.max_position_embeddings,
        clean_up_tokenization_spaces=False,
    )


def _checked(corpus: Iterable[str]) -> Iterator[str]:
    """Yield the texts and finally the words of the template's headers; reject a corpus without text."""
    if isinstance(corpus, str):
        raise PolicyError("The corpus is one string; a list of texts was expected.", "Put the text into a list.")
    empty = True
    for text in corpus:
        empty = empty and not text.strip()
        yield text
        yield "system\nuser\nassistant\n"
    if empty:
        raise PolicyError("The corpus has no text.", "Pass texts like those that the model will read and write.")


def _initialise(settings: TinySettings, tokenizer: "PreTrainedTokenizerFast") -> "Qwen3ForCausalLM":
    """Create the decoder with seeded weights, without changing the caller's random state."""
    import torch
    from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=settings.hidden,
        intermediate_size=settings.intermediate,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.kv_heads,
        head_dim=settings.head_dim,
        max_position_embeddings=settings.max_position_embeddings,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        model = Qwen3ForCausalLM(config)
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, do_sample=True
    )
    return model
