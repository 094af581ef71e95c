"""LoRA adapters by peft: attach, save, and merge into a Hugging Face directory, once.

An adapter remembers a fingerprint of the weights it was trained on, and a merged directory remembers the adapters in
it, so that merging twice, or into other weights, is refused.
"""

import hashlib
import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsmith.policy.config import DTypeName, LoraSettings
from warpsmith.policy.errors import AdapterError, AlreadyMergedError, BaseMismatchError
from warpsmith.policy.files import appearing_directory
from warpsmith.policy.loading import Policy, check_directory, check_weights, read_config, torch_dtype

if TYPE_CHECKING:
    from peft import PeftModel

RECORD = "warpsmith_adapter.json"
MERGED = "warpsmith_merged.json"
_SAMPLED_ELEMENTS = 4096


def attach(policy: Policy, settings: LoraSettings, *, seed: int = 0) -> "PeftModel":
    """Freeze the policy's model and put trainable low-rank adapters on it.

    Args:
        policy: the policy; its model is changed in place.
        settings: rank, alpha, dropout and the layers to adapt.
        seed: seed of the adapters' first factor; the second starts at zero, so the model's output is unchanged.

    Returns:
        The model to train.

    Raises:
        AdapterError: peft is not installed, or the model has none of the layers named.
    """
    _require_peft()
    import peft
    import torch

    config = peft.LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=list(settings.target_modules),
        task_type="CAUSAL_LM",
    )
    try:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return peft.get_peft_model(policy.model, config)
    except ValueError as error:
        names = ", ".join(settings.target_modules)
        raise AdapterError(
            f"No adapter fits this model: {error}.", f"Name linear layers of the model; asked for were {names}."
        ) from error


def save_adapter(
    model: "PeftModel", path: str | Path, *, base: str | Path, state_dict: dict[str, Any] | None = None
) -> Path:
    """Write the adapter alone, in peft's own format, with the fingerprint of its base.

    Args:
        model: what `attach` returned.
        path: the directory to make.
        base: the directory that the base model was loaded from.
        state_dict: the weights, where they are not in the model (gathered from ZeRO-3 partitions).
    """
    with appearing_directory(Path(path)) as scratch:
        model.save_pretrained(scratch, state_dict=state_dict)
        record = {"base": str(base), "base_fingerprint": fingerprint(Path(base))}
        (scratch / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return Path(path)


def merge_adapter(base: str | Path, adapter: str | Path, out: str | Path, *, dtype: DTypeName | None = None) -> Path:
    """Write a Hugging Face directory of the base with the adapter added to its weights.

    Args:
        base: the directory that the adapter was trained on.
        adapter: what `save_adapter` wrote.
        out: the directory to make.
        dtype: type of the written weights; the base's own by default. The sum is made in fp32.

    Raises:
        AlreadyMergedError: `base` holds this adapter already.
        BaseMismatchError: `base` is not what the adapter was trained on.
        AdapterError: `adapter` is no adapter of `save_adapter`, or peft is not installed.
    """
    _require_peft()
    import peft

    base, adapter = check_directory(Path(base)), Path(adapter)
    merged_before = _refuse_wrong_base(base, adapter)
    policy = Policy.load(base, "float32")
    model = peft.PeftModel.from_pretrained(policy.model, str(adapter)).merge_and_unload(safe_merge=True)
    model.to(torch_dtype(dtype or _stored_dtype(base)))
    with appearing_directory(Path(out)) as scratch:
        model.save_pretrained(scratch)
        policy.tokenizer.save_pretrained(scratch)
        history = {"adapters": [*merged_before, adapter_digest(adapter)]}
        (scratch / MERGED).write_text(json.dumps(history, indent=2) + "\n", encoding="utf-8")
    return Path(out)


def fingerprint(directory: Path) -> str:
    """Return a digest of a directory's weights: every tensor's name and shape, and its first 4,096 elements.

    Elements are taken as bfloat16, so that a copy stored in fp32 has the same digest as its bf16 original.

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
    return hashlib.sha256((adapter / "adapter_model.safetensors").read_bytes()).hexdigest()


def _leading(part: Any) -> Any:
    """Return about the first 4,096 elements of a tensor in a file, without reading the rest."""
    shape = part.get_shape()
    if not shape:
        return part[...].reshape(1).contiguous()
    row = 1
    for size in shape[1:]:
        row *= size
    return part[: max(1, _SAMPLED_ELEMENTS // max(1, row))].contiguous()


def _refuse_wrong_base(base: Path, adapter: Path) -> list[str]:
    """Return the digests of the adapters merged into `base` before, all different from this one."""
    record = adapter / RECORD
    if not record.is_file() or not (adapter / "adapter_model.safetensors").is_file():
        raise AdapterError(f"{adapter} is no adapter with a {RECORD}.", "Give what adapters.save_adapter wrote.")
    merged = base / MERGED
    before: list[str] = json.loads(merged.read_text(encoding="utf-8"))["adapters"] if merged.is_file() else []
    if adapter_digest(adapter) in before:
        raise AlreadyMergedError(f"{base} holds {adapter} already.", "Use it as it is, or merge into the base.")
    trained_on = json.loads(record.read_text(encoding="utf-8"))
    if fingerprint(base) != trained_on["base_fingerprint"]:
        raise BaseMismatchError(
            f"{adapter} was trained on other weights than those of {base}.", f"Its base was {trained_on['base']}."
        )
    return before


def _stored_dtype(base: Path) -> DTypeName:
    config = read_config(base)
    name = config.get("dtype") or config.get("torch_dtype")
    return "bfloat16" if name == "bfloat16" else "float16" if name == "float16" else "float32"


def _require_peft() -> None:
    if find_spec("peft") is None:
        raise AdapterError("Adapters need peft, which is not installed.", "pip install 'warpsmith-policy[lora]'")
