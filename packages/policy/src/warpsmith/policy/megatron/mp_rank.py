"""The layout of one file per rank: `mp_rank_00_001/model_optim_rng.pt` is tensor rank 0 of pipeline stage 1."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from warpsmith.policy.errors import CheckpointError, ConversionError
from warpsmith.policy.megatron.pickles import attributes, read_torch_file
from warpsmith.policy.megatron.tensors import (
    EMBEDDING,
    FC1,
    FC2,
    OUTPUT,
    PROJ,
    QKV,
    WRAPPER,
    Checkpoint,
    StoredTensor,
    holds_weights,
    layer_name,
    layer_part,
)

if TYPE_CHECKING:
    import torch

    Shards = Sequence[torch.Tensor]

_RANK: Final = re.compile(r"mp_rank_(\d{2})(?:_(\d{3}))?(?:_(\d{3}))?")
_FILES: Final = ("model_optim_rng.pt", "model_rng.pt")
_MODEL: Final = re.compile(r"model(\d*)")

# Along which dimension tensor parallelism cuts; what is not named here is whole on each rank.
_ROWS: Final = (f"{QKV}.weight", f"{QKV}.bias", f"{FC1}.weight", EMBEDDING, OUTPUT)
_COLUMNS: Final = (f"{PROJ}.weight", f"{FC2}.weight")


class Place(NamedTuple):
    """The ranks of a file: in the pipeline, and among the tensor shards of that stage."""

    stage: int
    shard: int


def is_mp_rank(directory: Path) -> bool:
    """Whether a directory has this layout."""
    return any(_RANK.fullmatch(path.name) for path in directory.iterdir())


def read_mp_rank(directory: Path) -> Checkpoint:
    """Return the model's tensors of a checkpoint with one file per rank; their data stays in the files.

    Raises:
        CheckpointError: a rank's file is missing or damaged, or the ranks do not fit each other.
        ConversionError: the model has experts, or is of Megatron's classes before Megatron-Core.
    """
    ranks = {place: read_torch_file(path) for place, path in sorted(_files(directory).items())}
    arguments = attributes(next(iter(ranks.values())).get("args"))
    stages, shards = 1 + max(p.stage for p in ranks), 1 + max(p.shard for p in ranks)
    _check_grid(directory, ranks, arguments, Place(stages, shards))
    tensors: dict[str, StoredTensor] = {}
    first_layer = 0
    # With interleaved stages each stage has several chunks; the model's layers run through the first chunks first.
    for chunk in _chunk_names(directory, ranks[Place(0, 0)]):
        for stage in range(stages):
            parts = [_model(directory, ranks[Place(stage, shard)], chunk) for shard in range(shards)]
            named = dict(_stage_tensors(directory, parts, first_layer))
            _add(directory, tensors, named)
            first_layer += len({found[0] for name in parts[0] if (found := layer_part(name)) is not None})
    return Checkpoint(directory, tensors, arguments)


def _files(directory: Path) -> dict[Place, Path]:
    """Return the file of each rank."""
    found: dict[Place, Path] = {}
    for path in directory.iterdir():
        match = _RANK.fullmatch(path.name)
        if match is None:
            continue
        if match[3]:
            raise ConversionError(
                f"{path} is of a model with experts, which is not supported.", "Convert a dense model."
            )
        file = next((path / name for name in _FILES if (path / name).is_file()), None)
        if file is None:
            raise CheckpointError(f"{path} has no {_FILES[0]}.", "Copy every file of the checkpoint again.")
        found[Place(int(match[2] or 0), int(match[1]))] = file
    return found


def _check_grid(directory: Path, ranks: Mapping[Place, Any], arguments: Mapping[str, Any], found: Place) -> None:
    """Check that each rank of the training has its file."""
    wanted = Place(
        int(arguments.get("pipeline_model_parallel_size") or found.stage),
        int(arguments.get("tensor_model_parallel_size") or found.shard),
    )
    grid = {Place(stage, shard) for stage in range(wanted.stage) for shard in range(wanted.shard)}
    if set(ranks) != grid:
        absent = sorted(grid - set(ranks))
        named = f", without that of tensor rank {absent[0].shard} and stage {absent[0].stage}" if absent else ""
        raise CheckpointError(
            f"{directory} has the files of {len(ranks)} ranks{named}; {wanted.shard} tensor shards of {wanted.stage} "
            f"pipeline stages ({wanted.shard * wanted.stage} ranks) were expected.",
            "Copy the directories mp_rank_* of all ranks, and of one training alone.",
        )


def _chunk_names(directory: Path, rank: Mapping[str, Any]) -> list[str]:
    """Return the keys of a rank's models: `model`, or `model0`, `model1`, ... of an interleaved pipeline."""
    names = [name for name in rank if _MODEL.fullmatch(name)]
    if not names:
        raise CheckpointError(f"{directory} has no model in its files, only {', '.join(rank)}.", "Name another.")
    return sorted(names, key=lambda name: int(_MODEL.fullmatch(name)[1] or 0))  # type: ignore[index]


def _model(directory: Path, rank: Mapping[str, Any], chunk: str) -> dict[str, "torch.Tensor"]:
    """Return the weights that a rank holds, under the names of its own layers."""
    import torch

    model = rank.get(chunk)
    if not isinstance(model, dict):
        raise CheckpointError(f"A rank of {directory} has no {chunk}; others have.", "Copy the checkpoint again.")
    if "language_model" in model:
        raise ConversionError(
            f"{directory} is of Megatron's model classes before Megatron-Core.",
            "Load and save it by Megatron-LM with --ckpt-format torch_dist first.",
        )
    weights = {name.removeprefix(WRAPPER): value for name, value in model.items() if holds_weights(name)}
    for name, value in weights.items():
        if not isinstance(value, torch.Tensor):
            raise ConversionError(f"{name} of {directory} is not a tensor.", "Convert a dense GPT model's checkpoint.")
    return weights


def _stage_tensors(
    directory: Path, parts: Sequence[Mapping[str, "torch.Tensor"]], first_layer: int
) -> Iterator[tuple[str, StoredTensor]]:
    """Yield the tensors of one stage, the shards of all its ranks merged."""
    for name in dict.fromkeys(name for part in parts for name in part):
        if any(name not in part for part in parts):
            raise CheckpointError(
                f"Some tensor ranks of {directory} have {name} and some have not.",
                "Copy the directories mp_rank_* again, of one training alone.",
            )
        found = layer_part(name)
        part = layer_name(0, found[1]) if found else name
        full = layer_name(first_layer + found[0], found[1]) if found else name
        yield full, _merged(directory, full, part.removeprefix("decoder.layers.0."), [one[name] for one in parts])


def _merged(directory: Path, name: str, part: str, shards: "Shards") -> StoredTensor:
    """Return a tensor put together from its shards when it is read."""
    import torch

    dimension = 0 if part in _ROWS else 1 if part in _COLUMNS else None
    first = shards[0]
    if any(shard.shape != first.shape or shard.dtype != first.dtype for shard in shards):
        raise CheckpointError(
            f"{name} has another shape on another tensor rank of {directory}.",
            "Copy the directories mp_rank_* again, of one training alone.",
        )
    shape = list(first.shape)
    if dimension is not None:
        shape[dimension] *= len(shards)

    def read() -> torch.Tensor:
        if dimension is None:
            if not all(torch.equal(shard, first) for shard in shards):
                raise CheckpointError(
                    f"{name} differs between the tensor ranks of {directory}, and should be the same on each.",
                    "Copy the directories mp_rank_* again, of one step of one training alone.",
                )
            return first
        if part != f"{FC1}.weight":
            return torch.cat(list(shards), dim=dimension)
        # Each rank has its rows of the gate, then its rows of the up projection.
        halves = [shard.chunk(2) for shard in shards]
        return torch.cat([half[i] for i in (0, 1) for half in halves])

    return StoredTensor(tuple(shape), first.dtype, read)


def _add(directory: Path, tensors: dict[str, StoredTensor], stage: Mapping[str, StoredTensor]) -> None:
    """Add a stage's tensors."""
    twice = sorted(set(tensors) & set(stage))
    if twice:
        raise CheckpointError(f"Two pipeline stages of {directory} have {twice[0]}.", "Copy the checkpoint again.")
    tensors.update(stage)
