"""Hugging Face directories as checkpoints of Megatron, in the layout `torch_dist`."""

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from warpsmith.policy.errors import CheckpointError, ConversionError
from warpsmith.policy.files import appearing_directory
from warpsmith.policy.loading import check_directory, check_weights
from warpsmith.policy.megatron.architecture import Architecture, Family, from_config, to_arguments
from warpsmith.policy.megatron.convert import TRACKER
from warpsmith.policy.megatron.mapping import HF_EMBEDDING, HF_OUTPUT, Rule, rules
from warpsmith.policy.megatron.tensors import FC1, FC2, LAYERS, PROJ, QKV, holds_weights, layer_part
from warpsmith.policy.megatron.torch_dist_writer import TorchDistWriter

if TYPE_CHECKING:
    import torch

RELEASE: Final = "release"
_VERSION: Final = 3.0
"""`checkpoint_version` since query, key and value are stored by groups."""

_PAD_TO: Final = 128
"""Megatron's default of --make-vocab-size-divisible-by."""

_WITH_STATE: Final = (QKV, PROJ, FC1, FC2)
"""Layers whose kernels' state Megatron asks for, even where it has none."""


def to_megatron(
    source: str | Path, out: str | Path, family: Family | None = None, *, say: Callable[[str], None] = print
) -> Path:
    """Convert a Hugging Face directory to a checkpoint that Megatron-Core loads with any parallelism.

    The embedding is padded with zeros to a multiple of 128 rows. Weights keep their dtype; one layer is in memory at
    once. The tokenizer is not part of Megatron's checkpoints.

    Args:
        source: the Hugging Face directory.
        out: the directory to create; it gets a `release` and the file that names it, as `--load` expects.
        family: the architecture that is expected.
        say: called with the name of each step.

    Raises:
        CheckpointError: `source` is missing or damaged, or `out` is not empty.
        ConversionError: the architecture is not supported, or a tensor is missing, unexpected or misshapen.
    """
    directory = check_directory(Path(source))
    architecture = from_config(directory, family)
    with ExitStack() as open_files, appearing_directory(Path(out)) as scratch:
        stored = _open(directory, open_files)
        expected = _check(directory, stored, architecture)
        dtype = stored[HF_EMBEDDING]().dtype
        rows = -(-(architecture.vocab_size or 0) // _PAD_TO) * _PAD_TO
        arguments = to_arguments(architecture, dtype, rows)
        say(f"read {directory}: {architecture.family}, {architecture.layers} layers, {len(stored)} tensors")
        (scratch / RELEASE).mkdir()
        _write(scratch / RELEASE, stored, expected, architecture.layers, rows=rows, arguments=arguments, say=say)
        (scratch / TRACKER).write_text(RELEASE, encoding="utf-8")
    say(f"wrote {out}")
    return Path(out)


def _open(directory: Path, open_files: ExitStack) -> "dict[str, Callable[[], torch.Tensor]]":
    """Return a function per stored tensor that reads it."""
    from safetensors import safe_open

    found: dict[str, Callable[[], torch.Tensor]] = {}
    for path in check_weights(directory):
        file = open_files.enter_context(safe_open(path, framework="pt"))
        for name in file.keys():  # noqa: SIM118
            if holds_weights(name):
                found[name] = _reader(file, name)
    return found


def _reader(file: Any, name: str) -> "Callable[[], torch.Tensor]":
    return lambda: file.get_tensor(name)


def _check(
    directory: Path, stored: "Mapping[str, Callable[[], torch.Tensor]]", architecture: Architecture
) -> list[Rule]:
    """Return the rules after comparing their names with those of the stored tensors."""
    import torch

    expected = list(rules(architecture))
    names = {name for rule in expected for name in rule.hugging_face}
    copy = {HF_OUTPUT} if architecture.tied and HF_OUTPUT in stored else set()
    for wrong, what in ((sorted(names - set(stored)), "missing"), (sorted(set(stored) - names - copy), "unexpected")):
        if wrong:
            raise ConversionError(
                f"{directory} as a {architecture.family}: {len(wrong)} tensors are {what}, first {wrong[0]}.",
                "Use the config.json that belongs to these weights; merge an adapter into them first.",
            )
    if copy and not torch.equal(stored[HF_OUTPUT](), stored[HF_EMBEDDING]()):
        raise ConversionError(
            f"{directory} ties its output layer to the embedding, and stores another {HF_OUTPUT}.",
            "Use the config.json that belongs to these weights.",
        )
    return expected


def _write(
    directory: Path,
    stored: "Mapping[str, Callable[[], torch.Tensor]]",
    expected: list[Rule],
    layers: int,
    *,
    rows: int,
    arguments: Mapping[str, Any],
    say: Callable[[str], None],
) -> None:
    """Write each tensor of Megatron's model; those of layers as chunks of one tensor over all layers."""
    writer = TorchDistWriter(directory)
    for rule, whole in _joined(stored, expected, rows):
        found = layer_part(rule.megatron)
        if found is None:
            writer.add(rule.megatron, whole)
            continue
        layer, part = found
        writer.add(f"{LAYERS}{part}", whole[None], (layers, *whole.shape), (layer, *[0] * whole.dim()))
        if part == f"{FC2}.weight":
            say(f"layer {layer + 1} of {layers}")
    for layer in range(layers):
        for part in _WITH_STATE:
            writer.add_object(f"{LAYERS}{part}._extra_state/shard_{layer}_{layers}", None)
    writer.close({"args": Namespace(**arguments), "checkpoint_version": _VERSION, "iteration": 0})


def _joined(
    stored: "Mapping[str, Callable[[], torch.Tensor]]", expected: list[Rule], rows: int
) -> "Iterator[tuple[Rule, torch.Tensor]]":
    """Yield Megatron's tensors, the embeddings padded to `rows`."""
    import torch

    for rule in expected:
        parts = tuple(stored[name]() for name in rule.hugging_face)
        for part, (name, shape) in zip(parts, rule.hugging_face.items(), strict=True):
            if tuple(part.shape) != shape:
                raise CheckpointError(
                    f"{name} has the shape {list(part.shape)}; its config.json gives {list(shape)}.",
                    "Use the config.json that belongs to these weights.",
                )
        whole = rule.join(parts)
        if rule.padded and rows > len(whole):
            whole = torch.cat([whole, whole.new_zeros(rows - len(whole), *whole.shape[1:])])
        yield rule, whole
