"""Tokens per second, model FLOPs utilisation and memory of one training step, adding one optimisation at a time.

A model of Qwen3-0.6B's shape with random weights makes ZeRO-2 steps on two batches: `even`, 8 rows of 2,048 tokens, and
`mixed`, 64 rows of very different lengths, like answers. Each variant adds one optimisation to the previous one, or
removes one, and runs in a separate process, so that its memory is separate too.

The first is a plain loop: padded rows, the whole vocabulary's logits in fp32. Tokens are the rows' own; padding does
not count. Model FLOPs: six per weight that a token is multiplied with, and causal attention within its own sequence;
recomputation and padding do not count.

    python benchmarks/train_step.py                                   # on a GPU
    python benchmarks/train_step.py --shape tiny --dtype float32      # anywhere, to see that it runs
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from _machine import describe, need_gpu, write_result
from _models import random_model
from torch import Tensor
from transformers import PreTrainedModel

from warpsmith.policy.attention import register
from warpsmith.policy.kernels import LIGER, apply_liger
from warpsmith.trainer.config.sections import OptimizerSection, RunSection, ZeroSection
from warpsmith.trainer.distributed.micro_batches import micro_batches, padding_share
from warpsmith.trainer.distributed.ranks import join, leave
from warpsmith.trainer.distributed.rows import PaddedRows, Row, pad_rows
from warpsmith.trainer.distributed.zero_engine import ZeroEngine
from warpsmith.trainer.planning.shapes import KNOWN, ModelShape

ROOT = Path(__file__).resolve().parent.parent
SHAPES = {
    "qwen3-0.6b": KNOWN["qwen3-0.6b"],
    "tiny": ModelShape("tiny", 2, 64, 192, 4, 2, 16, 4096, tied=True, normed=True),
}
PEAK_BF16_FLOPS = {"H200": 989e12, "H100 80GB HBM3": 989e12, "A100": 312e12}
"""Dense, from the vendors' data sheets; the key is a part of the device's name."""
WARMUP_STEPS = 2
EXCEPTION = re.compile(
    r"(\[rank\d+\]: ?)?([A-Za-z_]\w*\.)*[A-Z]\w*(Error|Exception|Interrupt|Exit|OutOfResources)(:|$)"
)
"""Start of a line that names an exception, as printed by Python and by torch's hook for ranks."""
TRACE_LINES = 20


@dataclass(frozen=True)
class Variant:
    """One way to make the step."""

    name: str
    whole_logits: bool = False
    packing: bool = False
    attention: str = "sdpa"
    kernels: str = "torch"
    checkpointing: bool = False


VARIANTS = (
    Variant("plain: padded rows, whole logits", whole_logits=True),
    Variant("+ log-probabilities in chunks"),
    Variant("+ packing, a mask keeps sequences apart", packing=True),
    Variant("+ attention told the borders", packing=True, attention="varlen"),
    Variant("+ fused body kernels (liger)", packing=True, attention="varlen", kernels=LIGER),
    Variant("+ gradient checkpointing", packing=True, attention="varlen", kernels=LIGER, checkpointing=True),
)


# One variant, in a process of its own ------------------------------------------------------------------------------


def lengths_of(batch: str) -> list[int]:
    if batch == "even":
        return [2048] * 8
    drawn = random.Random(0)
    return [min(2048, max(64, int(drawn.lognormvariate(6.0, 0.8)))) for _ in range(64)]


def build(shape: str, variant: Variant, dtype: str) -> PreTrainedModel:
    register()
    model = random_model(SHAPES[shape], getattr(torch, dtype), variant.attention)
    if variant.kernels == LIGER:
        apply_liger(model)
    if variant.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return model


def scorer(engine: ZeroEngine, variant: Variant) -> Callable[[PaddedRows], Tensor]:
    """Return a function that computes the log-probability of every token, (B, T) fp32."""
    if not variant.whole_logits:
        return lambda rows: engine.logprobs(rows, 1.0)[0]

    def whole(rows: PaddedRows) -> Tensor:
        logits_BTV = engine._engine(input_ids=rows.ids_BT, attention_mask=rows.attention_BT, use_cache=False).logits
        logprobs_BTV = logits_BTV[:, :-1].float().log_softmax(-1)
        chosen_BT = logprobs_BTV.gather(-1, rows.ids_BT[:, 1:, None]).squeeze(-1)
        return torch.nn.functional.pad(chosen_BT, (1, 0))

    return whole


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Make steps of one variant; seconds are the median, with each step awaited."""
    variant = VARIANTS[arguments.one]
    zero = ZeroSection(stage=2, packing=variant.packing, micro_batch_tokens=arguments.micro_batch_tokens)
    ranks = join(RunSection(dir=ROOT / "runs"), zero)
    model = build(arguments.shape, variant, arguments.dtype)
    parameters = sum(each.numel() for each in model.parameters())
    engine = ZeroEngine(model, zero=zero, optimizer=OptimizerSection(), ranks=ranks, dtype=arguments.dtype)
    engine.train()
    lengths = lengths_of(arguments.batch)
    batches = micro_batches(lengths, zero.micro_batch_tokens, packed=variant.packing)
    drawn = np.random.default_rng(0)
    rows = [
        Row(drawn.integers(0, SHAPES[arguments.shape].vocabulary, n), np.r_[0, np.ones(n - 1, int)]) for n in lengths
    ]
    score, on_gpu = scorer(engine, variant), ranks.device.type == "cuda"
    seconds = []
    for _ in range(WARMUP_STEPS + arguments.steps):
        began = time.perf_counter()
        for done, batch in enumerate(batches, start=1):
            padded = pad_rows([rows[i] for i in batch], ranks.device)
            loss = -(score(padded) * padded.mask_BT).sum() / sum(lengths)
            engine.accumulate(loss, last=done == len(batches))
        engine.step(1e-6)
        if on_gpu:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)
    leave()
    return {
        "seconds": median(seconds[WARMUP_STEPS:]),
        "tokens": sum(lengths),
        "micro_batches": len(batches),
        "padding_share": 0.0 if variant.packing else padding_share(lengths, batches),
        "parameters": parameters,
        "peak_bytes": torch.cuda.max_memory_allocated() if on_gpu else None,
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
    }


# All of them ---------------------------------------------------------------------------------------------------------


def model_flops(shape: str, parameters: int, lengths: Sequence[int]) -> float:
    """FLOPs of forward and backward: 6 per weight and token, 6 T^2 per layer and channel for causal attention."""
    made = SHAPES[shape]
    channels = made.heads * made.head_dim * made.layers
    return 6.0 * parameters * sum(lengths) + 6.0 * channels * sum(n * n for n in lengths)


def figures(arguments: argparse.Namespace, batch: str, number: int) -> dict[str, Any]:
    """Run one variant and add the derived figures; for a failure, its error and where it happened."""
    command = [
        sys.executable, __file__, "--one", str(number), "--batch", batch, "--shape", arguments.shape,
        "--dtype", arguments.dtype, "--steps", str(arguments.steps),
        "--micro-batch-tokens", str(arguments.micro_batch_tokens),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    case = {"batch": batch, "dtype": arguments.dtype, **asdict(VARIANTS[number])}
    if done.returncode:
        return {**case, **failure(done.stderr, done.returncode)}
    found = json.loads(done.stdout.strip().splitlines()[-1])
    flops = model_flops(arguments.shape, found["parameters"], lengths_of(batch)) / found["seconds"]
    peak = next((peak for name, peak in PEAK_BF16_FLOPS.items() if name in found["device"]), None)
    return {
        **case, **found, "tokens_per_s": found["tokens"] / found["seconds"], "model_flops_per_s": flops,
        "mfu": None if peak is None or arguments.dtype == "float32" else flops / peak,
    }  # fmt: skip


def failure(stderr: str, code: int) -> dict[str, Any]:
    """Return the last line that names an exception, and lines before and after it.

    NCCL's last warning is about a process group that was not left. A compiler's output can follow the exception.
    """
    lines = stderr.strip().splitlines() or [f"exit code {code}"]
    named = [number for number, text in enumerate(lines) if EXCEPTION.match(text)]
    at = named[-1] if named else len(lines) - 1
    before, behind = lines[: at + 1], lines[at + 1 :][: TRACE_LINES // 2]
    return {"error": lines[at][:400], "trace": [*before[len(behind) - TRACE_LINES :], *behind]}


def line(row: dict[str, Any]) -> str:
    if "error" in row:
        return f"{row['batch']:6} {row['name']:42} {row['error']}"
    mfu = "" if row["mfu"] is None else f" MFU {row['mfu']:6.1%}"
    memory = "" if row["peak_bytes"] is None else f" {row['peak_bytes'] / 2**30:6.1f} GiB"
    speed = f"{row['tokens_per_s']:9,.0f} tokens/s"
    return f"{row['batch']:6} {row['name']:42} {speed}{mfu}{memory}  padding {row['padding_share']:.0%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="qwen3-0.6b")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--steps", type=int, default=8, help="timed steps of each variant")
    parser.add_argument("--micro-batch-tokens", type=int, default=16_384)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/train_step.json")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--batch", choices=("even", "mixed"), help="only this batch")
    arguments = parser.parse_args()
    if arguments.one is not None:
        print(json.dumps(measure(arguments)))
        return
    if arguments.shape != "tiny":
        need_gpu()
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    result = {
        **describe(["torch", "transformers", "deepspeed", "triton", "liger-kernel", "warpsmith-trainer"]),
        "rows": [],
    }
    result |= {"shape": asdict(SHAPES[arguments.shape]), "steps": arguments.steps}
    result["micro_batch_tokens"] = arguments.micro_batch_tokens
    for batch in (arguments.batch,) if arguments.batch else ("even", "mixed"):
        for number in range(len(VARIANTS)):
            row = figures(arguments, batch, number)
            print(line(row), flush=True)
            result["rows"].append(row)
            write_result(arguments.out, result)


if __name__ == "__main__":
    main()
