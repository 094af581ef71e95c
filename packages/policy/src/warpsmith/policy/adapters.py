"""LoRA adapters by peft: attach, save, and merge once into a Hugging Face directory.

An adapter records a fingerprint of the weights it was trained on, and a merged directory records its adapters, so
that merging twice, or into other weights, is rejected.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsmith.policy import lowrank
from warpsmith.policy.config import NEW, DTypeName, LoraSettings
from warpsmith.policy.errors import AdapterError, AlreadyMergedError, BaseMismatchError
from warpsmith.policy.files import appearing_directory
from warpsmith.policy.loading import (
    Policy,
    check_directory,
    check_weights,
    empty_model,
    read_config,
    stored_shapes,
    torch_dtype,
)
from warpsmith.records.wording import installing

if TYPE_CHECKING:
    import torch
    from peft import LoraConfig, PeftModel

WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"
RECORD = "warpsmith_adapter.json"
MERGED = "warpsmith_merged.json"
_SAMPLED_ELEMENTS = 4096


def attach(policy: Policy, settings: LoraSettings, *, seed: int = 0) -> "PeftModel":
    """Freeze the policy's model and attach trainable low-rank adapters to it.

    Args:
        policy: the policy; its model is changed in place.
        settings: rank, alpha, dropout and the layers to adapt.
        seed: seed of the adapters' first factor; the second starts at zero, so the model's output is unchanged.

    Returns:
        The model to train.

    Raises:
        AdapterError: peft is not installed, or a named layer does not exist or cannot have an adapter.
    """
    require_peft()
    import peft
    import torch

    try:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            # In the dtype of the weights: if that is narrow, the optimizer keeps the factors in fp32.
            model = peft.get_peft_model(policy.model, lora_config(settings), autocast_adapter_dtype=False)
    except ValueError as error:
        names = ", ".join(settings.target_modules)
        raise AdapterError(
            f"No adapter fits this model: {error}.", f"Name linear layers of the model; got {names}."
        ) from error
    lowrank.check_layers(model)
    return model


def attach_named(policy: Policy, settings: LoraSettings, starts: Mapping[str, str], *, seed: int = 0) -> "PeftModel":
    """Attach several adapters of the same settings, by name, all trainable; the first one computes.

    Args:
        policy: the policy; its model is changed in place.
        settings: of each adapter.
        starts: by name the directory of an adapter that was trained on `policy.path`, or `new`.
        seed: as for `attach`; each new adapter has its own factors.

    Raises:
        AdapterError, BaseMismatchError: as for `attach` and `read_adapter`; nothing is attached then.
    """
    require_peft()
    import peft
    import torch

    known = {name: read_adapter(start, policy.path, settings) for name, start in starts.items() if start != NEW}
    first, *others = starts
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = lora_config(settings)
        model = peft.get_peft_model(policy.model, config, adapter_name=first, autocast_adapter_dtype=False)
        for name in others:
            model.add_adapter(name, lora_config(settings), autocast_adapter_dtype=False)
    lowrank.check_layers(policy.model)
    parameters = dict(policy.model.named_parameters())
    for name, factors in known.items():
        own = {lowrank.file_name(key, name): key for key in parameters if lowrank.adapter_of(key) == name}
        _check_factors(Path(starts[name]), set(own), factors)
        for in_file, key in own.items():
            parameters[key].data.copy_(factors[in_file])
    for key, parameter in parameters.items():
        parameter.requires_grad_(lowrank.is_factor(key))
    return model


def _check_factors(path: Path, expected: "set[str]", found: "Mapping[str, torch.Tensor]") -> None:
    wrong = sorted(expected.symmetric_difference(found))
    if wrong:
        raise AdapterError(
            f"{path} adapts other layers than [policy.lora]: {wrong[0]} is only in one of them.",
            "Set policy.lora.target_modules as it was trained with.",
        )


def read_adapter(path: str | Path, base: str | Path, settings: LoraSettings) -> "dict[str, torch.Tensor]":
    """Return the factors of an adapter by their names in peft's files.

    Args:
        path: a directory written by this package.
        base: the weights that it is to be trained on further.
        settings: what its rank and alpha must be.

    Raises:
        AdapterError: it is not such a directory, is damaged, or has another rank or alpha.
        BaseMismatchError: it was trained on other weights than `base`.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    folder = Path(path)
    _check_base(Path(base), folder)
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        factors: dict[str, torch.Tensor] = load_file(folder / WEIGHTS)
    except (OSError, ValueError, SafetensorError) as error:
        raise AdapterError(f"{folder} cannot be read: {error}.", "Write the adapter again.") from error
    if (config.get("r"), config.get("lora_alpha")) != (settings.rank, settings.alpha):
        raise AdapterError(
            f"{folder} has rank {config.get('r')} and alpha {config.get('lora_alpha')}; [policy.lora] has "
            f"{settings.rank} and {settings.alpha:g}.",
            "Set policy.lora.rank and policy.lora.alpha to the adapter's.",
        )
    return factors


def lora_config(settings: LoraSettings) -> "LoraConfig":
    """Return peft's configuration of an adapter."""
    import peft

    return peft.LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=list(settings.target_modules),
        task_type="CAUSAL_LM",
    )


def write_adapter(
    weights: "Mapping[str, torch.Tensor]",
    settings: LoraSettings,
    path: str | Path,
    *,
    base: str | Path,
    overwrite: bool = False,
) -> Path:
    """Write factors that are not in a model as a peft directory, with the fingerprint of their base.

    Args:
        weights: the factors under their names in peft's files (`lowrank.file_name`).
        settings: the settings they were attached with.
        path: the directory to create.
        base: the directory that the base model was loaded from.
        overwrite: replace an existing directory.

    Raises:
        CheckpointError: `path` is not empty and `overwrite` is not set.
    """
    require_peft()
    config = lora_config(settings)
    config.base_model_name_or_path = str(base)
    config.inference_mode = True
    with appearing_directory(Path(path), overwrite=overwrite) as scratch:
        config.save_pretrained(str(scratch))
        (scratch / WEIGHTS).write_bytes(_serialised(weights))
        _write_record(scratch, base)
    return Path(path)


def write_merged(
    policy: Policy,
    weights: "Mapping[str, torch.Tensor]",
    adapter: "Mapping[str, torch.Tensor]",
    path: str | Path,
    *,
    overwrite: bool = False,
) -> Path:
    """Write a Hugging Face directory of weights with a merged adapter, and record the adapter in it.

    Args:
        policy: the policy with the adapter; provides configuration and tokenizer.
        weights: all weights under their names without adapters (`lowrank.merged_weight`), of one dtype.
        adapter: the merged factors, as for `write_adapter`.
        path: the directory to create.
        overwrite: replace an existing directory.

    Raises:
        CheckpointError: `path` is not empty and `overwrite` is not set.
    """
    # An empty model of the base: the one in memory has other layers, and always saves 4-bit weights.
    shell = empty_model(policy.path, next(iter(weights.values())).dtype)
    shell.generation_config = policy.model.generation_config
    history = [*merged_into(policy.path), hashlib.sha256(_serialised(adapter)).hexdigest()]
    with appearing_directory(Path(path), overwrite=overwrite) as scratch:
        shell.save_pretrained(scratch, state_dict=dict(weights))
        policy.tokenizer.save_pretrained(scratch)
        _write_history(scratch, history)
    return Path(path)


def count_parameters(directory: Path, settings: LoraSettings) -> int:
    """Return the number of parameters of the adapters of a directory's model, from the headers of its weights.

    Raises:
        CheckpointError: weights are missing or damaged.
    """
    adapted = [
        shape
        for name, shape in stored_shapes(directory).items()
        if name.endswith(tuple(f".{target}.weight" for target in settings.target_modules))
    ]
    return sum(settings.rank * sum(shape) for shape in adapted)


def save_adapter(
    model: "PeftModel", path: str | Path, *, base: str | Path, state_dict: dict[str, Any] | None = None
) -> Path:
    """Write only the adapter, in peft's format, with the fingerprint of its base.

    Args:
        model: the model returned by `attach`.
        path: the directory to create.
        base: the directory that the base model was loaded from.
        state_dict: the weights if they are not in the model (gathered from ZeRO-3 partitions).
    """
    with appearing_directory(Path(path)) as scratch:
        model.save_pretrained(scratch, state_dict=state_dict)
        _write_record(scratch, base)
    return Path(path)


def merge_adapter(base: str | Path, adapter: str | Path, out: str | Path, *, dtype: DTypeName | None = None) -> Path:
    """Write a Hugging Face directory of the base with the adapter added to its weights.

    Args:
        base: the directory that the adapter was trained on.
        adapter: a directory written by `save_adapter`.
        out: the directory to create.
        dtype: dtype of the written weights; the base's own by default. The sum is computed in fp32.

    Raises:
        AlreadyMergedError: `base` already contains this adapter.
        BaseMismatchError: the adapter was not trained on `base`.
        AdapterError: `adapter` was not written by `save_adapter`, or peft is not installed.
    """
    require_peft()
    import peft

    base, adapter = check_directory(Path(base)), Path(adapter)
    merged_before = _refuse_wrong_base(base, adapter)
    policy = Policy.load(base, "float32")
    model = peft.PeftModel.from_pretrained(policy.model, str(adapter)).merge_and_unload(safe_merge=True)
    model.to(torch_dtype(dtype or _stored_dtype(base)))
    with appearing_directory(Path(out)) as scratch:
        model.save_pretrained(scratch)
        policy.tokenizer.save_pretrained(scratch)
        _write_history(scratch, [*merged_before, adapter_digest(adapter)])
    return Path(out)


def fingerprint(directory: Path) -> str:
    """Return a digest of a directory's weights: every tensor's name and shape, and its first 4,096 elements.

    Elements are converted to bfloat16, so that a copy stored in fp32 has the same digest as its bf16 original.

    Raises:
        CheckpointError: weights are missing or damaged.
    """
    import torch
    from safetensors import safe_open

    parts: dict[str, bytes] = {}
    for file in check_weights(directory):
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118  a file handle, not a mapping
                part = tensors.get_slice(name)
                head = _leading(part).to(torch.bfloat16).view(torch.int16).numpy().tobytes()
                parts[name] = repr(tuple(part.get_shape())).encode() + head
    digest = hashlib.sha256()
    for name in sorted(parts):
        digest.update(name.encode() + b"\0" + parts[name])
    return digest.hexdigest()


def adapter_digest(adapter: Path) -> str:
    """Return the SHA-256 of an adapter's weight file."""
    return hashlib.sha256((adapter / WEIGHTS).read_bytes()).hexdigest()


def merged_into(base: Path) -> list[str]:
    """Return the digests of the adapters that were merged into a directory's weights."""
    record = base / MERGED
    return list(json.loads(record.read_text(encoding="utf-8"))["adapters"]) if record.is_file() else []


def _serialised(weights: "Mapping[str, torch.Tensor]") -> bytes:
    from safetensors.torch import save

    data: bytes = save({name: tensor.contiguous() for name, tensor in weights.items()}, metadata={"format": "pt"})
    return data


def _write_record(directory: Path, base: str | Path) -> None:
    record = {"base": str(base), "base_fingerprint": fingerprint(Path(base))}
    (directory / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _write_history(directory: Path, digests: Sequence[str]) -> None:
    (directory / MERGED).write_text(json.dumps({"adapters": list(digests)}, indent=2) + "\n", encoding="utf-8")


def _leading(part: Any) -> Any:
    """Return roughly the first 4,096 elements of a tensor in a file, without reading the rest."""
    shape = part.get_shape()
    if not shape:
        return part[...].reshape(1).contiguous()
    row = 1
    for size in shape[1:]:
        row *= size
    return part[: max(1, _SAMPLED_ELEMENTS // max(1, row))].contiguous()


def _refuse_wrong_base(base: Path, adapter: Path) -> list[str]:
    """Return the digests of the adapters that are already in `base`, all different from this one."""
    _check_is_adapter(adapter)
    before = merged_into(base)
    if adapter_digest(adapter) in before:
        raise AlreadyMergedError(
            f"{adapter} is already merged into {base}.", "Use it as it is, or merge into the adapter's original base."
        )
    _check_base(base, adapter)
    return before


def _check_is_adapter(adapter: Path) -> None:
    if not (adapter / RECORD).is_file() or not (adapter / WEIGHTS).is_file():
        raise AdapterError(
            f"{adapter} is not an adapter with a {RECORD}.", "Pass a directory written by adapters.save_adapter."
        )


def _check_base(base: Path, adapter: Path) -> None:
    _check_is_adapter(adapter)
    trained_on = json.loads((adapter / RECORD).read_text(encoding="utf-8"))
    if fingerprint(base) != trained_on["base_fingerprint"]:
        raise BaseMismatchError(
            f"{adapter} was not trained on the weights of {base}.", f"Its base was {trained_on['base']}."
        )


def _stored_dtype(base: Path) -> DTypeName:
    config = read_config(base)
    name = config.get("dtype") or config.get("torch_dtype")
    return "bfloat16" if name == "bfloat16" else "float16" if name == "float16" else "float32"


def require_peft() -> None:
    """Raise AdapterError if peft is not installed.

    Raises:
        AdapterError: it is not installed.
    """
    if find_spec("peft") is None:
        raise AdapterError("Adapters need peft, which is not installed.", installing("policy", "lora"))
