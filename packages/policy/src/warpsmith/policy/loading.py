"""A policy: model, tokenizer and chat format of one Hugging Face directory, validated before use."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsmith.policy.chat import ChatFormat
from warpsmith.policy.chat_templates import set_template
from warpsmith.policy.config import AttentionName, DTypeName, KernelsName, PolicyConfig
from warpsmith.policy.errors import CheckpointError, TokenizerError
from warpsmith.policy.files import appearing_directory
from warpsmith.policy.kernels import LIGER, apply_liger, check_kernels
from warpsmith.policy.quantization import check_quantization, quantization_config

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

_LAYER_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
WEIGHTS, WEIGHTS_INDEX = "model.safetensors", "model.safetensors.index.json"


@dataclass(frozen=True)
class Policy:
    """A model in memory with the tokenizer and chat format it was trained for.

    Attributes:
        model: a causal language model, in evaluation mode.
        tokenizer: its fast tokenizer.
        chat: the chat format of the tokenizer, with the generation config's stop tokens.
        path: the directory it was loaded from.
    """

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerFast"
    chat: ChatFormat
    path: Path

    @classmethod
    def load(
        cls,
        path: str | Path,
        dtype: DTypeName = "float32",
        *,
        attention: AttentionName = "sdpa",
        kernels: KernelsName = "torch",
        template_kwargs: Mapping[str, Any] | None = None,
        chat_template: str | None = None,
        bits: int | None = None,
    ) -> "Policy":
        """Load a Hugging Face directory; nothing is downloaded and none of its code is run.

        Args:
            path: the directory.
            dtype: the dtype of the weights in memory.
            attention: transformers' name of the attention implementation.
            kernels: `liger` computes norms, rotary embeddings and gated MLPs with liger-kernel; the model then runs
                only on a GPU.
            template_kwargs: variables passed to the chat template.
            chat_template: the template to use instead of the tokenizer's: `qwen`, `llama3`, `chatml`, or a file.
            bits: 4 quantizes the linear layers to NF4 while reading them, for training adapters.

        Raises:
            CheckpointError: the directory, its configuration or its weights are missing, damaged or incomplete.
            TokenizerError: there is no usable tokenizer.
            TemplateError: there is no chat template, or it has no generation prompt.
            QuantizationError: 4-bit weights are not available here.
            KernelsError: liger-kernel is not available here, or does not support this model.
        """
        if bits is not None:
            check_quantization()
        directory = check_directory(Path(path))
        if kernels == LIGER:
            check_kernels(read_config(directory))
        chat = load_chat(directory, template_kwargs, chat_template)
        check_weights(directory)
        model = _load_model(directory, dtype, attention, bits)
        if kernels == LIGER:
            apply_liger(model)
        return cls(model, chat.tokenizer, chat, directory)

    @classmethod
    def from_config(cls, config: PolicyConfig) -> "Policy":
        """Load what `config` names. Attach its adapters with `adapters.attach`."""
        policy = cls.load(
            config.path, config.dtype, attention=config.attention, kernels=config.kernels,
            template_kwargs=config.template_kwargs, chat_template=config.chat_template,
            bits=config.lora.bits if config.lora else None,
        )  # fmt: skip
        if config.gradient_checkpointing:
            policy.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        return policy

    def save(self, path: str | Path, *, state_dict: Mapping[str, Any] | None = None, overwrite: bool = False) -> Path:
        """Write a Hugging Face directory, completely or not at all.

        Args:
            path: the directory to create.
            state_dict: the weights to write if they are not in the model (gathered from ZeRO-3 partitions).
            overwrite: replace an existing directory.

        Raises:
            CheckpointError: `path` is not empty and `overwrite` is not set.
        """
        with appearing_directory(Path(path), overwrite=overwrite) as scratch:
            self.model.save_pretrained(scratch, state_dict=None if state_dict is None else dict(state_dict))
            self.tokenizer.save_pretrained(scratch)
        return Path(path)


def load_policy(
    path: str | Path,
    dtype: DTypeName = "float32",
    *,
    attention: AttentionName = "sdpa",
    kernels: KernelsName = "torch",
    template_kwargs: Mapping[str, Any] | None = None,
    chat_template: str | None = None,
) -> Policy:
    """Load a Hugging Face directory; same as `Policy.load`."""
    return Policy.load(
        path, dtype, attention=attention, kernels=kernels, template_kwargs=template_kwargs, chat_template=chat_template
    )


# Checks, each cheap enough to run before the weights are read -----------------------------------------------------


def check_directory(path: Path) -> Path:
    """Return `path` if it is a directory with a readable `config.json` of a causal language model.

    Raises:
        CheckpointError: it is not.
    """
    if not path.is_dir():
        what = "is a file" if path.exists() else "does not exist"
        remedy = "Name the directory that holds config.json." if path.exists() else _remedy_for_missing(path)
        raise CheckpointError(f"{path} {what}; a Hugging Face directory was expected.", remedy)
    read_config(path)
    return path


def _remedy_for_missing(path: Path) -> str:
    """Return what to do about a model that does not exist."""
    if path.name == "final_model":
        return "A training run writes it at its end: finish or resume the run in the directory above it."
    return "Fetch one: `warpsmith-policy fetch Qwen/Qwen3-8B DIR`, or `warpsmith-policy fetch-smollm2 DIR`."


def read_config(directory: Path) -> dict[str, Any]:
    """Return the `config.json` of a directory.

    Raises:
        CheckpointError: it is missing, not a JSON object, or names no model type.
    """
    config = _read_json(directory / "config.json", "Copy the model's config.json beside its weights.")
    if "model_type" not in config:
        raise CheckpointError(
            f"{directory / 'config.json'} names no model_type.", "Copy the config.json of the released model."
        )
    return config


def load_tokenizer(directory: Path) -> "PreTrainedTokenizerFast":
    """Load the fast tokenizer of `directory`.

    Raises:
        TokenizerError: `tokenizer.json` is missing or unreadable.
    """
    from transformers import AutoTokenizer

    remedy = "Save it there with AutoTokenizer.from_pretrained(NAME).save_pretrained(DIRECTORY)."
    if not (directory / "tokenizer.json").is_file():
        raise TokenizerError(f"{directory} has no tokenizer.json.", remedy)
    try:
        return AutoTokenizer.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # the tokenizers library raises plain Exception for a damaged file
        raise TokenizerError(f"The tokenizer of {directory} cannot be read: {error}.", remedy) from error


def token_ids(directory: Path) -> dict[str, int]:
    """Return the id of each token in `tokenizer.json`, including added ones, without transformers.

    Raises:
        CheckpointError: the file is missing or not a tokenizer.
    """
    path = directory / "tokenizer.json"
    content = _read_json(path, "Save it there with AutoTokenizer.from_pretrained(NAME).save_pretrained(DIRECTORY).")
    try:
        known = content["model"]["vocab"]
        # Unigram models list pieces with their scores, in the order of their ids.
        ids = dict(known) if isinstance(known, dict) else {piece: i for i, (piece, _) in enumerate(known)}
        return ids | {added["content"]: added["id"] for added in content["added_tokens"]}
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is not a tokenizer: {error!r}.", "Copy the file again.") from error


def load_chat(
    path: str | Path, template_kwargs: Mapping[str, Any] | None = None, chat_template: str | None = None
) -> ChatFormat:
    """Load only the chat format; no weights are read.

    Args:
        path: the directory.
        template_kwargs: variables passed to the chat template.
        chat_template: the template to use instead of the tokenizer's: `qwen`, `llama3`, `chatml`, or a file.

    Raises:
        CheckpointError, TokenizerError, TemplateError: as `Policy.load`.
    """
    directory = check_directory(Path(path))
    tokenizer = load_tokenizer(directory)
    if chat_template is not None:
        set_template(tokenizer, chat_template)
    return ChatFormat(tokenizer, stop_token_ids=_generation_stops(directory), template_kwargs=template_kwargs)


def chat_of(config: PolicyConfig) -> ChatFormat:
    """Load only the chat format of what `config` names; errors as for `load_chat`."""
    return load_chat(config.path, config.template_kwargs, config.chat_template)


def check_weights(directory: Path) -> list[Path]:
    """Return the safetensors files of `directory` after reading their headers.

    Raises:
        CheckpointError: a file is missing, truncated or not in safetensors format.
    """
    from safetensors import SafetensorError, safe_open

    files = _weight_files(directory)
    for file in files:
        try:
            with safe_open(file, framework="numpy") as tensors:
                tensors.keys()
        except (SafetensorError, OSError) as error:
            raise CheckpointError(
                f"{file} is damaged or cut short ({error}).", "Copy or download the file again."
            ) from error
    return files


def check_shapes(directory: Path) -> None:
    """Check that the weights have the architecture of `config.json`; reads headers only.

    Raises:
        CheckpointError: names the first tensor whose shape differs or that only some layers have.
    """
    expected, stored = _expected_shapes(directory), stored_shapes(directory)
    patterns = {_LAYER_NUMBER.sub("#", name) for name in stored}
    for name, shape in expected.items():
        # A tensor that no layer has can be tied, or can have another name in the file.
        absent = name not in stored and _LAYER_NUMBER.search(name) and _LAYER_NUMBER.sub("#", name) in patterns
        if absent or stored.get(name, shape) != shape:
            found = "lack it" if absent else f"have it as {list(stored[name])}"
            raise CheckpointError(
                f"The config.json of {directory} gives {name} the shape {list(shape)}; its weights {found}.",
                "Use the config.json that belongs to these weights.",
            )


def _expected_shapes(directory: Path) -> dict[str, tuple[int, ...]]:
    import torch

    return {name: tuple(tensor.shape) for name, tensor in empty_model(directory, torch.float32).state_dict().items()}


def empty_model(directory: Path, dtype: "torch.dtype") -> "PreTrainedModel":
    """Return the model that a directory's `config.json` describes on torch's meta device: shapes without weights.

    Raises:
        CheckpointError: transformers does not know the model.
    """
    import torch
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig, AutoModelForCausalLM

    try:
        config = AutoConfig.from_pretrained(directory, local_files_only=True, trust_remote_code=False)
        with torch.device("meta"):
            return AutoModelForCausalLM.from_config(config, dtype=dtype, trust_remote_code=False)
    except (ValueError, KeyError, RuntimeError, OSError, ImportError, TypeError, StrictDataclassError) as error:
        raise CheckpointError(
            f"transformers cannot build the model that the config.json of {directory} describes: {error}.",
            "Use the config.json of a causal language model that this version of transformers knows.",
        ) from error


def stored_shapes(directory: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of each stored tensor by name, read from the headers.

    Raises:
        CheckpointError: weights are missing or damaged.
    """
    from safetensors import safe_open

    found: dict[str, tuple[int, ...]] = {}
    for file in check_weights(directory):
        with safe_open(file, framework="numpy") as tensors:
            found |= {name: tuple(tensors.get_slice(name).get_shape()) for name in tensors.keys()}  # noqa: SIM118
    return found


def count_parameters(directory: Path) -> int:
    """Return the number of weights stored in a directory; tied ones count once.

    Raises:
        CheckpointError: weights are missing or damaged.
    """
    return sum(math.prod(shape) for shape in stored_shapes(directory).values())


def torch_dtype(name: DTypeName) -> "torch.dtype":
    """Return the torch dtype of that name."""
    import torch

    return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[name]


def _weight_files(directory: Path) -> list[Path]:
    index = directory / WEIGHTS_INDEX
    if index.is_file():
        names = sorted(set(_read_json(index, "Copy the index again.").get("weight_map", {}).values()))
    else:
        names = [WEIGHTS]
    missing = [name for name in names if not (directory / name).is_file()]
    if missing or not names:
        raise CheckpointError(
            f"{directory} lacks {', '.join(missing) or 'every weight file named by its index'}.",
            "Copy every safetensors file; convert older .bin weights with save_pretrained.",
        )
    return [directory / name for name in names]


def _read_json(path: Path, remedy: str) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path.parent} has no {path.name}.", remedy) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} is not JSON: {error}.", remedy) from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} is not a JSON object.", remedy)
    return value


def _generation_stops(directory: Path) -> list[int]:
    """Return the stop tokens of generation_config.json, or of config.json if there is none."""
    for name in ("generation_config.json", "config.json"):
        if (directory / name).is_file():
            stop = _read_json(directory / name, "Copy the file again.").get("eos_token_id")
            if stop is not None:
                return [stop] if isinstance(stop, int) else list(stop)
    return []


def _load_model(directory: Path, dtype: DTypeName, attention: AttentionName, bits: int | None) -> "PreTrainedModel":
    """Load the weights; reject a model that would stay partly randomly initialised."""
    from transformers import AutoModelForCausalLM

    from warpsmith.policy.attention import register

    register()
    try:
        model, report = AutoModelForCausalLM.from_pretrained(
            directory,
            dtype=torch_dtype(dtype),
            attn_implementation=attention,
            quantization_config=None if bits is None else quantization_config(torch_dtype(dtype)),
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except (ValueError, KeyError, RuntimeError, OSError, ImportError) as error:
        raise CheckpointError(
            f"transformers cannot load {directory}: {error}.",
            "Check that config.json belongs to these weights and that the architecture is a causal language model.",
        ) from error
    wrong = sorted(map(str, [*report["missing_keys"], *report["mismatched_keys"]]))
    if wrong:
        raise CheckpointError(
            f"{len(wrong)} tensors of the architecture are missing from or misshapen in {directory}, first {wrong[0]}.",
            "Use the config.json that belongs to these weights.",
        )
    return model.eval()
