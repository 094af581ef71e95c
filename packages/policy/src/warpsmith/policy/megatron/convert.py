"""Checkpoints of Megatron as Hugging Face directories."""

import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from warpsmith.policy.errors import CheckpointError, ConversionError
from warpsmith.policy.files import appearing_directory
from warpsmith.policy.loading import WEIGHTS, WEIGHTS_INDEX, check_directory, check_shapes, load_tokenizer, token_ids
from warpsmith.policy.megatron.architecture import (
    Architecture,
    Family,
    check_agreement,
    from_arguments,
    from_config,
    to_config,
)
from warpsmith.policy.megatron.mapping import Rule, check_tensors
from warpsmith.policy.megatron.mp_rank import is_mp_rank, read_mp_rank
from warpsmith.policy.megatron.tensors import EMBEDDING, OUTPUT, Checkpoint
from warpsmith.policy.megatron.torch_dist import FORMAT, is_torch_dist, read_torch_dist

if TYPE_CHECKING:
    import torch

TRACKER: Final = "latest_checkpointed_iteration.txt"
CONFIG, GENERATION = "config.json", "generation_config.json"
_FILE_BYTES: Final = 5 * 10**9
_TOKENIZER: Final = re.compile(
    r"tokenizer.*\.json|tokenizer\.model|special_tokens_map\.json|added_tokens\.json|vocab\.(json|txt)|merges\.txt"
    r"|chat_template\.(jinja|json)"
)


@dataclass(frozen=True)
class Options:
    """What to take from elsewhere than the checkpoint.

    Attributes:
        family: the architecture, if the checkpoint does not say; compared with it otherwise.
        config: a Hugging Face directory whose `config.json`, generation config and tokenizer belong to the model.
        tokenizer: a directory with the tokenizer; that of `config` if None.
        vocab_size: rows of the embedding that belong to tokens.
        file_bytes: most bytes in one file of weights.
    """

    family: Family | None = None
    config: Path | None = None
    tokenizer: Path | None = None
    vocab_size: int | None = None
    file_bytes: int = _FILE_BYTES


class File(NamedTuple):
    """A file of weights to write: the rules whose tensors it holds, and their bytes."""

    rules: list[Rule]
    bytes: int


def to_hugging_face(
    source: str | Path, out: str | Path, options: Options | None = None, *, say: Callable[[str], None] = print
) -> Path:
    """Convert a checkpoint of Megatron, `torch_dist` or one file per rank, to a Hugging Face directory.

    Shards of tensor and pipeline parallelism are merged; weights keep their dtype. At most `file_bytes` of weights are
    in memory at once.

    Args:
        source: the directory that was saved to, or that of one iteration.
        out: the directory to create.
        options: what the checkpoint does not say.
        say: called with the name of each step.

    Raises:
        CheckpointError: a file of the checkpoint is missing or damaged, or `out` is not empty.
        ConversionError: the architecture is not supported, or a tensor is missing, unexpected or misshapen.
        TokenizerError: the tokenizer cannot be read.
    """
    options = options or Options()
    checkpoint = read_checkpoint(Path(source))
    architecture = architecture_of(checkpoint, options)
    rules = check_tensors(checkpoint, architecture)
    say(f"read {checkpoint.directory}: {architecture.family}, {architecture.layers} layers, {len(rules)} tensors")
    with appearing_directory(Path(out)) as scratch:
        _write_weights(checkpoint, rules, architecture, scratch, file_bytes=options.file_bytes, say=say)
        _write_config(checkpoint, architecture, options, scratch)
        _copy_tokenizer(options, scratch, say)
        check_shapes(check_directory(scratch))
    say(f"wrote {out}")
    return Path(out)


# Reading ---------------------------------------------------------------------------------------------------------


def read_checkpoint(source: Path) -> Checkpoint:
    """Return what a checkpoint of either layout holds.

    Raises:
        CheckpointError: there is none, or it is incomplete or damaged.
        ConversionError: it is of a layout or a model that is not supported.
    """
    directory = find_iteration(source)
    if is_torch_dist(directory):
        return read_torch_dist(directory)
    if is_mp_rank(directory):
        return read_mp_rank(directory)
    _refuse_layout(directory)
    raise CheckpointError(
        f"{directory} holds no checkpoint of Megatron: neither .metadata (torch_dist) nor mp_rank_* directories.",
        "Name the directory of --save, or its iter_* directory. If it is torch_dist, copy .metadata too; a plain "
        "`cp dir/*` leaves it behind.",
    )


def find_iteration(source: Path) -> Path:
    """Return the directory of the iteration: `source` itself, or the newest one in it.

    Raises:
        CheckpointError: there is none.
    """
    if not source.is_dir():
        raise CheckpointError(f"{source} is not a directory; a checkpoint of Megatron was expected.", "Check the path.")
    tracker = source / TRACKER
    if not tracker.is_file():
        return source
    text = tracker.read_text(encoding="utf-8", errors="replace").strip()
    directory = source / (text if text == "release" else f"iter_{int(text):07d}" if text.isdecimal() else "?")
    if not directory.is_dir():
        raise CheckpointError(
            f"{tracker} names {text!r}, and {source} has no {directory.name}.",
            "Copy that directory too, or name the one of another iteration.",
        )
    return directory


def _refuse_layout(directory: Path) -> None:
    """Name a layout of Megatron that is not read here."""
    if not (directory / FORMAT).is_file():
        return
    try:
        backend = json.loads((directory / FORMAT).read_text(encoding="utf-8"))["sharded_backend"]
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{directory / FORMAT} is damaged: {error!r}.", "Copy it again.") from error
    if backend != "torch_dist":
        raise ConversionError(
            f"{directory} is saved as {backend!r}; torch_dist was expected.",
            "Load it by Megatron-LM and save it with --ckpt-format torch_dist.",
        )


def architecture_of(checkpoint: Checkpoint, options: Options) -> Architecture:
    """Return the architecture, with the size of the vocabulary.

    Raises:
        ConversionError: it is not supported, unknown, or differs between the checkpoint and `options`.
    """
    arguments, where = checkpoint.arguments, checkpoint.directory
    # A training's arguments always have this one; what others saved there says nothing about the model.
    trained = from_arguments(arguments, where, options.family) if "num_layers" in arguments else None
    named = None if options.config is None else from_config(options.config, options.family)
    if trained is not None and named is not None:
        check_agreement(named, trained, options.config or where, where)
    found = named or trained
    if found is None:
        raise ConversionError(
            f"{where} holds no training arguments, so its architecture is unknown.",
            "Pass --config with a directory whose config.json is of the model, for example the released one.",
        )
    size = options.vocab_size or found.vocab_size or _tokens(options)
    if size is None:
        raise ConversionError(
            f"{where} does not say how many rows of its embedding belong to tokens; the others pad it.",
            "Pass --config or --tokenizer with the model's directory, or --vocab-size with the number.",
        )
    return found.sized(size)


def _tokens(options: Options) -> int | None:
    return None if options.tokenizer is None else 1 + max(token_ids(options.tokenizer).values())


# Writing ---------------------------------------------------------------------------------------------------------


def _write_weights(
    checkpoint: Checkpoint,
    rules: list[Rule],
    architecture: Architecture,
    out: Path,
    *,
    file_bytes: int,
    say: Callable[[str], None],
) -> None:
    """Write the safetensors files, and the index if there are several."""
    from safetensors.torch import save_file

    if architecture.tied and OUTPUT in checkpoint.tensors:
        _check_tied(checkpoint)
    files = list(_files(checkpoint, rules, file_bytes))
    weight_map: dict[str, str] = {}
    for number, file in enumerate(files, start=1):
        name = WEIGHTS if len(files) == 1 else f"model-{number:05d}-of-{len(files):05d}.safetensors"
        tensors = dict(_converted(checkpoint, file.rules))
        save_file(tensors, out / name, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(tensors, name)
        say(f"wrote {name} ({number} of {len(files)}, {file.bytes / 1e9:.2f} GB)")
    if len(files) > 1:
        index = {"metadata": {"total_size": sum(file.bytes for file in files)}, "weight_map": weight_map}
        (out / WEIGHTS_INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


def _files(checkpoint: Checkpoint, rules: Iterable[Rule], most: int) -> Iterator[File]:
    """Yield files of at most `most` bytes each, if no single tensor is larger."""
    held: list[Rule] = []
    size = 0
    for rule in rules:
        needed = checkpoint.tensors[rule.megatron].bytes
        if held and size + needed > most:
            yield File(held, size)
            held, size = [], 0
        held.append(rule)
        size += needed
    yield File(held, size)


def _converted(checkpoint: Checkpoint, rules: Iterable[Rule]) -> "Iterator[tuple[str, torch.Tensor]]":
    for rule in rules:
        whole = checkpoint.tensors[rule.megatron].read()
        if rule.padded:
            whole = whole[: rule.shape[0]]
        for name, part in zip(rule.hugging_face, rule.split(whole), strict=True):
            yield name, part.contiguous()


def _check_tied(checkpoint: Checkpoint) -> None:
    """Check that the last stage's copy of a tied embedding is one."""
    import torch

    if not torch.equal(checkpoint.tensors[EMBEDDING].read(), checkpoint.tensors[OUTPUT].read()):
        raise ConversionError(
            f"{checkpoint.directory} has an output layer that differs from its embedding, and the model ties them.",
            "Pass the --config of the model that was trained; if it is right, copy the checkpoint again.",
        )


def _write_config(checkpoint: Checkpoint, architecture: Architecture, options: Options, out: Path) -> None:
    """Write `config.json` and the generation config: those of `options.config`, or made from the architecture."""
    dtype = str(checkpoint.tensors[EMBEDDING].dtype).removeprefix("torch.")
    if options.config is not None:
        config = json.loads((options.config / CONFIG).read_text(encoding="utf-8"))
        config.pop("torch_dtype", None)
        changed = {**config, "dtype": dtype, "vocab_size": architecture.vocab_size}
        (out / CONFIG).write_text(json.dumps(changed, indent=2) + "\n", encoding="utf-8")
        if (options.config / GENERATION).is_file():
            shutil.copyfile(options.config / GENERATION, out / GENERATION)
        return
    made = to_config(architecture, dtype)
    for name, value in _special_tokens(options).items():
        setattr(made, name, value)
    made.save_pretrained(out)


def _special_tokens(options: Options) -> Mapping[str, Any]:
    """Return the ids of the tokenizer that a configuration names."""
    names = ("bos_token_id", "eos_token_id", "pad_token_id")
    if options.tokenizer is None:
        return dict.fromkeys(names)
    tokenizer = load_tokenizer(options.tokenizer)
    return {name: getattr(tokenizer, name) for name in names}


def _copy_tokenizer(options: Options, out: Path, say: Callable[[str], None]) -> None:
    """Copy the tokenizer's files as they are."""
    directory = options.tokenizer or options.config
    files = [] if directory is None else [path for path in directory.iterdir() if _TOKENIZER.fullmatch(path.name)]
    for path in files:
        shutil.copyfile(path, out / path.name)
    if (out / "tokenizer.json").is_file():
        load_tokenizer(out)
    elif options.tokenizer is not None:
        load_tokenizer(options.tokenizer)
    else:
        say("no tokenizer: pass --tokenizer with the released model's directory, or copy its files beside the weights")
