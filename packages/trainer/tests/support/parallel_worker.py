"""Run by a launcher: gradients of ranks that share layers or rows, written by rank 0.

Usage: parallel_worker.py MODEL OUT.pt TENSOR SEQUENCE [STAGE:BUDGET:LAYOUT:PRESET ...], LAYOUT packed or padded
"""

import sys
from pathlib import Path

import gradient_worker
import torch

from warpsmith.trainer.config.parallel import ParallelSection
from warpsmith.trainer.config.sections import RunSection, ZeroSection
from warpsmith.trainer.distributed.ranks import join, leave


def main() -> None:
    model, out, tensor, sequence, *cases = sys.argv[1:]
    parallel = ParallelSection(tensor=int(tensor), sequence=int(sequence))
    ranks = join(RunSection(dir=Path("unused"), torch_threads=1), ZeroSection(), parallel)
    attention = "varlen" if ranks.rows else "sdpa"
    found = {}
    for case in cases:
        stage, budget, layout, preset = case.split(":")
        found[case] = gradient_worker.gradient(
            Path(model), ranks, int(stage), int(budget),
            packing=layout == "packed", preset=preset, attention=attention,
        )  # fmt: skip
    if ranks.drives:
        torch.save(found, out)
    ranks.barrier()
    leave()


if __name__ == "__main__":
    main()
