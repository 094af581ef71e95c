"""The shape of a decoder: from its config.json, or from a table of known models."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from warpsmith.policy.config import LoraSettings
from warpsmith.policy.errors import CheckpointError
from warpsmith.policy.loading import count_parameters, read_config
from warpsmith.trainer.errors import ConfigError

_PLAIN = ("llama", "mistral", "qwen2", "qwen3")
"""Model types that the formulas here support: layers of attention, a gated MLP and two norms."""


@dataclass(frozen=True)
class ModelShape:
    """A decoder with grouped-query attention and a gated MLP.

    Attributes:
        name: its name.
        layers, hidden, intermediate, heads, kv_heads, head_dim, vocabulary: as in config.json.
        tied: whether the output projection is the embedding.
        biased: whether the projections to queries, keys and values have biases (Qwen2).
        normed: whether queries and keys are normalised (Qwen3).
    """

    name: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool
    biased: bool = False
    normed: bool = False

    @property
    def projections(self) -> dict[str, tuple[int, int]]:
        """The linear layers of one decoder layer by the last part of their names: input and output sizes."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        wide = (self.hidden, self.intermediate)
        return {
            "q_proj": (self.hidden, queries), "k_proj": (self.hidden, keys), "v_proj": (self.hidden, keys),
            "o_proj": (queries, self.hidden),
            "gate_proj": wide, "up_proj": wide, "down_proj": (self.intermediate, self.hidden),
        }  # fmt: skip

    @property
    def layer_parameters(self) -> int:
        """Parameters of one layer: projections, their biases, and norms."""
        biases = (self.heads + 2 * self.kv_heads) * self.head_dim if self.biased else 0
        norms = 2 * self.hidden + (2 * self.head_dim if self.normed else 0)
        return sum(into * out for into, out in self.projections.values()) + biases + norms

    @property
    def projected(self) -> int:
        """Parameters of all projections and their biases: what ranks that share layers have a part of each."""
        norms = 2 * self.hidden + (2 * self.head_dim if self.normed else 0)
        return self.layers * (self.layer_parameters - norms)

    @property
    def embedding(self) -> int:
        """Parameters of the embedding, and of the output projection if it is a separate matrix."""
        return self.vocabulary * self.hidden

    @property
    def parameters(self) -> int:
        """All parameters; tied ones count once."""
        return self.layers * self.layer_parameters + self.embedding * (1 if self.tied else 2) + self.hidden

    def adapters(self, lora: LoraSettings) -> int:
        """Return the parameters of LoRA adapters: rank x (in + out) for each chosen layer (arXiv 2106.09685, 4.1)."""
        chosen = [sizes for name, sizes in self.projections.items() if name in lora.target_modules]
        return self.layers * sum(lora.rank * (into + out) for into, out in chosen)


KNOWN = {
    shape.name: shape
    for shape in (
        ModelShape("smollm2-135m", 30, 576, 1536, 9, 3, 64, 49152, tied=True),
        ModelShape("smollm2-360m", 32, 960, 2560, 15, 5, 64, 49152, tied=True),
        ModelShape("qwen2.5-coder-0.5b", 24, 896, 4864, 14, 2, 64, 151936, tied=True, biased=True),
        ModelShape("qwen2.5-coder-1.5b", 28, 1536, 8960, 12, 2, 128, 151936, tied=True, biased=True),
        ModelShape("qwen2.5-coder-7b", 28, 3584, 18944, 28, 4, 128, 152064, tied=False, biased=True),
        ModelShape("qwen3-0.6b", 28, 1024, 3072, 16, 8, 128, 151936, tied=True, normed=True),
        ModelShape("qwen3-1.7b", 28, 2048, 6144, 16, 8, 128, 151936, tied=True, normed=True),
        ModelShape("qwen3-4b", 36, 2560, 9728, 32, 8, 128, 151936, tied=True, normed=True),
        ModelShape("qwen3-8b", 36, 4096, 12288, 32, 8, 128, 151936, tied=False, normed=True),
        ModelShape("qwen3-14b", 40, 5120, 17408, 40, 8, 128, 151936, tied=False, normed=True),
        ModelShape("llama-3.1-8b", 32, 4096, 14336, 32, 8, 128, 128256, tied=False),
    )
}
# Created by `warpsmith-trainer demo`.
KNOWN["demo"] = ModelShape("demo", 4, 192, 512, 6, 2, 32, 1024, tied=True, normed=True)
KNOWN["kernelllm"] = replace(KNOWN["llama-3.1-8b"], name="kernelllm")


def shape_of(path: Path, model: str | None = None) -> ModelShape:
    """Return the shape of the model at `path`; reads only config.json and headers.

    Args:
        path: a Hugging Face directory; if it does not exist, its name is looked up.
        model: a known name to use instead.

    Raises:
        ConfigError: the directory does not exist and its name starts with no known model; or `model` is unknown.
        CheckpointError: its config.json is damaged, lacks a size, or has an unsupported architecture.
    """
    if model is not None:
        return _known(model)
    if (path / "config.json").is_file():
        return _checked(path, read_shape(path))
    return _known(str(path))


def _known(name: str) -> ModelShape:
    """Look up a name: the last part of a path first, since a run's `final_model` is under the run's name."""
    parts = reversed(re.sub(r"[_\s]", "-", name.lower()).split("/"))
    near = next((found for part in parts if (found := [known for known in KNOWN if part.startswith(known)])), [])
    if not near:
        raise ConfigError(
            f"{name} does not exist, and no model of that name is known.",
            f"Copy the model's config.json into that directory, or name a like model with --model: {', '.join(KNOWN)}.",
        )
    return KNOWN[max(near, key=len)]


def read_shape(path: Path) -> ModelShape:
    """Return the shape described by a directory's config.json; errors as for `shape_of`."""
    config = read_config(path)
    kind = config["model_type"]
    if kind not in _PLAIN:
        raise CheckpointError(
            f"{path / 'config.json'} describes a model of the type {kind}; plans support {', '.join(_PLAIN)}.",
            "Name a model of about its size with --model, and leave some memory free.",
        )
    heads, hidden = _size(path, config, "num_attention_heads"), _size(path, config, "hidden_size")
    return ModelShape(
        name=path.name,
        layers=_size(path, config, "num_hidden_layers"),
        hidden=hidden,
        intermediate=_size(path, config, "intermediate_size"),
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or hidden // heads,
        vocabulary=_size(path, config, "vocab_size"),
        tied=bool(config.get("tie_word_embeddings", False)),
        biased=kind == "qwen2" or bool(config.get("attention_bias", False)),
        normed=kind == "qwen3",
    )


def _size(path: Path, config: dict[str, Any], key: str) -> int:
    value = config.get(key)
    if not isinstance(value, int) or value < 1:
        raise CheckpointError(
            f"{path / 'config.json'} has {value!r} for {key}; a whole number was expected.",
            "Copy the config.json of the released model.",
        )
    return value


def _checked(path: Path, shape: ModelShape) -> ModelShape:
    """Reject stored weights that do not match the shape."""
    if not list(path.glob("*.safetensors")):
        return shape
    stored = count_parameters(path)
    # A tied projection can be stored twice.
    if stored not in (shape.parameters, shape.parameters + shape.embedding):
        raise CheckpointError(
            f"The weights in {path} have {stored:,} parameters; by its config.json they would have "
            f"{shape.parameters:,}.",
            "Use the config.json that belongs to these weights.",
        )
    return shape
