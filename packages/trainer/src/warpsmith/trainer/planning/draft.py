"""The tables of a new file for a model and a machine, before it is known whether they fit."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal

from warpsmith.evaluator.devices.registry import device_kind
from warpsmith.trainer.planning.machines import Machine
from warpsmith.trainer.planning.shapes import ModelShape
from warpsmith.trainer.planning.sizes import GIB

Kind = Literal["grpo", "sft"]
Tables = dict[str, Any]

_TINY: Final = 20_000_000
_SMALL: Final = 1_000_000_000
_LARGE: Final = 3_000_000_000
"""Parameters up to which a model is tiny or small, and from which on it is large."""

_BESIDE_TRAINER: Final = 0.4
"""Share of a GPU for vLLM where the same GPU trains."""

_INPUTS: Final = 0.2
"""Share of a GPU that judges for one set of inputs or outputs; there are two."""

_INPUTS_IN_TURNS: Final = 0.04
"""The same where the GPU also samples and trains."""


def drafts(kind: Kind, path: Path, shape: ModelShape, machine: Machine, longest: int | None) -> Iterator[Tables]:
    """Yield tables to try, the preferred ones first: those of a CPU in fp32 before bf16.

    Args:
        kind: of the file.
        path: the model.
        shape: of the model.
        machine: where it is to run.
        longest: tokens that the model reads at most; None where that is not known.
    """
    for dtype in ("bfloat16",) if machine.gpus else ("float32", "bfloat16"):
        make = _grpo if kind == "grpo" else _sft
        yield make(path, shape, machine, dtype, min(_length(shape, machine), longest or 1 << 30))


def _length(shape: ModelShape, machine: Machine) -> int:
    """Return tokens of a prompt and its answer that a model of this size can use."""
    if shape.parameters < _TINY:
        return 640
    if not machine.gpus:
        return 2048
    return 4096 if shape.parameters < _SMALL else 8192


def _shared(path: Path, shape: ModelShape, machine: Machine, dtype: str) -> Tables:
    """Return the tables that files of both kinds have."""
    small_on_host = not machine.gpus and shape.parameters < _SMALL
    return {
        "policy": {"path": str(path), "dtype": dtype, "gradient_checkpointing": shape.parameters >= _SMALL // 2},
        "zero": {"stage": 3 if shape.parameters >= _LARGE else 1},
        "checkpoint": {"every": 50, "keep": 2},
        "run": {"torch_threads": 1} if small_on_host else {},
    }


def _sft(path: Path, shape: ModelShape, machine: Machine, dtype: str, length: int) -> Tables:
    shared = _shared(path, shape, machine, dtype)
    style = _style(shape)
    return {
        "run": {"dir": f"runs/{path.name}-sft", "steps": 300, **shared["run"]},
        "policy": shared["policy"],
        "data": {"max_tokens": length, "batch_size": 16},
        "data.source": {"type": "generated", "problems": 2000, "levels": [1, 2, 3], "prompt_style": style},
        "optimizer": {"lr": 1e-5 if shape.parameters >= _TINY else 1e-3, "warmup_steps": 20},
        "zero": {**shared["zero"], "micro_batch_tokens": max(length, 2048)},
        "checkpoint": shared["checkpoint"],
    }


def _grpo(path: Path, shape: ModelShape, machine: Machine, dtype: str, length: int) -> Tables:
    shared = _shared(path, shape, machine, dtype)
    placement, samplers, sampler, evaluator = _parts(machine, dtype)
    # Half is for answers; a tiny model's prompts are longer than its answers.
    answer = length // 2 if shape.parameters >= _TINY else length // 3
    return {
        "run": {"dir": f"runs/{path.name}-grpo", "steps": 100, **shared["run"]},
        **({"placement": placement} if placement else {}),
        "policy": shared["policy"],
        "problems": {"type": "generated", "count": 512, "levels": [1, 2, 3]},
        "rollout": {"prompt_style": _style(shape), "gamma": 0.4, "samplers": samplers},
        "rollout.environment": {"type": "kernelbench_multiturn", "max_turns": 3},
        "rollout.sampling": {"temperature": 1.0, "max_tokens": answer},
        "rollout.sampler": {**sampler, "max_model_len": length},
        "evaluator": evaluator,
        "algorithm": {"type": "grpo", "prompts_per_step": 4, "samples_per_prompt": 8},
        "optimizer": {"lr": 1e-6 if shape.parameters >= _TINY else 3e-4, "warmup_steps": 5},
        "zero": {**shared["zero"], "micro_batch_tokens": length},
        "held_out": {"problems": 32, "samples": 2},
        "checkpoint": shared["checkpoint"],
    }


def _style(shape: ModelShape) -> str:
    return "compact" if shape.parameters < _SMALL // 2 else "full"


def _parts(machine: Machine, dtype: str) -> tuple[Tables, int, Tables, Tables]:
    """Return `[placement]`, the number of samplers, and what `[rollout.sampler]` and `[evaluator]` say about devices.

    The last GPU judges, since timed work must have it alone; half of the others train and half sample. One GPU does
    everything, in turns.
    """
    if not machine.gpus:
        return {}, 1, {"device": "cpu", "dtype": dtype}, {"device": "cpu"}
    judging = [machine.gpus - 1]
    rest = list(range(machine.gpus - 1)) or judging
    train = rest[: -(-len(rest) // 2)]
    sample = rest[len(train) :] or train
    placement = {"train": train, "rollout": sample, "evaluation": judging}
    share = {"gpu_memory_utilization": _BESIDE_TRAINER} if sample == train else {}
    sampler = {"device": "cuda", "dtype": dtype, **share}
    return placement, len(sample), sampler, _evaluator(machine)


def _evaluator(machine: Machine) -> Tables:
    """Return `[evaluator]` for a GPU that judges: a small one takes smaller inputs than by default."""
    share = _INPUTS if machine.gpus > 1 else _INPUTS_IN_TURNS
    most = max(int(share * machine.gpu_bytes / GIB), 1) * GIB
    return {"device": "cuda"} | ({"max_tensor_bytes": most} if most < device_kind("cuda").max_tensor_bytes else {})
