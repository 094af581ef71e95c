"""Compare `warpsmith-trainer plan` with the real memory of one GPU: a model of a known shape with random weights.

    python benchmarks/plan_check.py --shape qwen3-0.6b --tokens 8192 --stage 2 --checkpointing

One rank makes two updates on random tokens; the peak is torch's own (`torch.cuda.max_memory_allocated`), so neither
figure includes contexts and memory that the allocator leaves unused. Prints one JSON object. Needs an NVIDIA GPU.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _machine import skip
from _models import random_model

from warpsmith.trainer.config.sections import OptimizerSection, RunSection, ZeroSection
from warpsmith.trainer.distributed.ranks import join, leave
from warpsmith.trainer.distributed.rows import Row, pad_rows
from warpsmith.trainer.distributed.zero_engine import ZeroEngine
from warpsmith.trainer.planning.parts import peak
from warpsmith.trainer.planning.shapes import KNOWN, ModelShape
from warpsmith.trainer.planning.training import Training, rank_parts


def measured(shape: ModelShape, zero: ZeroSection, *, checkpointing: bool) -> int:
    """Return the peak of two updates in bytes."""
    ranks = join(RunSection(dir=Path("unused")), zero)
    model = random_model(shape)
    if checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    engine = ZeroEngine(model, zero=zero, optimizer=OptimizerSection(lr=1e-6), ranks=ranks, dtype="bfloat16")
    engine.train()
    size = zero.micro_batch_tokens
    ids = np.random.default_rng(0).integers(3, shape.vocabulary, size)
    rows = pad_rows([Row(ids, np.ones(size, np.int64))], ranks.device)
    torch.cuda.reset_peak_memory_stats()
    for last in (False, True, False, True):
        logprobs_BT, _ = engine.logprobs(rows, 1.0)
        engine.accumulate(-logprobs_BT.mean(), last=last)
        if last:
            engine.step(1e-6)
    leave()
    return torch.cuda.max_memory_allocated()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=sorted(KNOWN), default="qwen3-0.6b")
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--stage", type=int, choices=(1, 2, 3), default=2)
    parser.add_argument("--checkpointing", action="store_true")
    given = parser.parse_args()
    if not torch.cuda.is_available():
        skip("this compares with a GPU, and torch sees none")
    zero = ZeroSection.model_validate({"stage": given.stage, "micro_batch_tokens": given.tokens})
    shape = KNOWN[given.shape]
    run = Training(shape, 2, zero, 1, given.tokens, given.checkpointing)
    planned, seen = peak(rank_parts(run)), measured(shape, zero, checkpointing=given.checkpointing)
    found: dict[str, Any] = {**vars(given), "planned": planned, "measured": seen, "ratio": planned / seen}
    print(json.dumps(found | {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}))


if __name__ == "__main__":
    main()
