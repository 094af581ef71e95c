"""Run by a launcher: what ranks that share layers or rows compute, written by rank 0.

Usage: parallel_worker.py MODEL FOLDER TENSOR SEQUENCE [CASE ...]. A case is one of
    gradient:STAGE:BUDGET:LAYOUT:PRESET:SEED[:DTYPE]    LAYOUT packed or padded, SEED of the turns; - takes those of all
    training:STAGE:DTYPE:WHAT                           WHAT is trained, `weights` or `lora`
The accelerator is DeepSpeed's choice: DS_ACCELERATOR is cpu or cuda, and rank r has GPU r.
"""

import sys
from pathlib import Path
from typing import Any

import gradient_worker
import torch
from adapter_training import LORA, Training, rows
from torch import distributed as dist

from warpsmith.trainer.config.parallel import ParallelSection
from warpsmith.trainer.config.sections import RunSection, ZeroSection
from warpsmith.trainer.distributed.gathered_weights import whole_on_device
from warpsmith.trainer.distributed.ranks import Ranks, join, leave
from warpsmith.trainer.distributed.tensor_parallel import shard_of
from warpsmith.trainer.weights.export import export
from warpsmith.trainer.weights.probe import trainer_logprobs
from warpsmith.trainer.weights.sync import payload_of


def compute(model: Path, ranks: Ranks, folder: Path, case: str) -> Any:
    """Return what a case gives; collective."""
    kind, *of = case.split(":")
    return gradient(model, ranks, *of) if kind == "gradient" else training(model, ranks, folder, *of)


def gradient(
    model: Path, ranks: Ranks, stage: str, budget: str, layout: str, preset: str, seed: str, dtype: Any = "float32"
) -> Any:
    return gradient_worker.gradient(
        model, ranks, int(stage), int(budget), packing=layout == "packed", preset=preset, dtype=dtype,
        attention="varlen" if ranks.rows else "sdpa",
        batch=None if seed == "-" else gradient_worker.turns_of(int(seed)),
    )  # fmt: skip


def training(model: Path, ranks: Ranks, folder: Path, stage: str, dtype: Any, what: str) -> dict[str, Any]:
    """Train, keep, resume, send and export; return what all of that gave."""

    def new() -> Training:
        # Adam divides by the gradient's size: with a small eps it would turn rounding of zeros into steps.
        return Training(model, ranks, int(stage), LORA if what == "lora" else None, dtype, eps=1e-3)

    first = new()
    found: dict[str, Any] = {"start": first.weights(), "start_logprobs": first.logprobs()}
    first.train(2)
    found |= {"weights": first.weights(), "logprobs": first.logprobs()}
    found["probe"] = trainer_logprobs(first.engine, ranks, rows().ids_BT[0].tolist())
    payload = payload_of(first.engine, ranks, 1, 1 << 12)
    found["payload"] = dict(payload.tensors()) if payload is not None else {}
    parts = first.engine.weight_parts()
    found["announced"] = {part.name: (part.dtype, part.shape) for part in parts}
    streamed = whole_on_device(parts, ranks, 1 << 12)
    found["streamed"] = {name: weight.clone() for name, weight in streamed if weight is not None}
    path = first.save(folder / "run")
    export(first.policy, first.engine, ranks, folder / "run" / "final_model", 1 << 12)
    resumed = new()
    resumed.engine.load(path)
    found |= {"gone_on": first.train().weights(), "resumed": resumed.train().weights(), "norms": first.norms}
    return found | {"apart": _apart(first, ranks)}


def _apart(trained: Training, ranks: Ranks) -> list[str]:
    """Return the parameters that every rank should have whole, and that differ between the ranks that share layers."""
    if ranks.layers is None or trained.zero.stage == 3:
        return []
    differ = []
    for name, parameter in trained.engine.module.named_parameters():
        if shard_of(parameter) is None:
            others = [torch.empty_like(parameter) for _ in range(ranks.layers.size)]
            dist.all_gather(others, parameter.detach(), group=ranks.layers.group)
            differ += [] if all(torch.equal(other, parameter) for other in others) else [name]
    return differ


def compute_exactly() -> None:
    """Let the same numbers in the same order give the same result, in full fp32, on a GPU as on a CPU.

    Attention is left to matrix products: the fused kernels that torch prefers for fp32 split it into sums of TF32.
    `varlen` is not affected; its backward pass sums in one order if deterministic algorithms are asked for. As warnings
    alone they would not be: attention then keeps its atomic additions. Uninitialised memory is filled with NaN.
    """
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.use_deterministic_algorithms(True)


def main() -> None:
    compute_exactly()
    model, out, tensor, sequence, *cases = sys.argv[1:]
    parallel = ParallelSection(tensor=int(tensor), sequence=int(sequence))
    ranks = join(RunSection(dir=Path("unused"), torch_threads=1), ZeroSection(), parallel)
    found = {case: compute(Path(model), ranks, Path(out) / str(at), case) for at, case in enumerate(cases)}
    if ranks.drives:
        torch.save(found, Path(out) / "found.pt")
    ranks.barrier()
    leave()


if __name__ == "__main__":
    main()
