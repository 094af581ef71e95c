"""Run by a launcher: the bytes that a rank's tensors take through one update, by ZeRO stage and dtype.

Usage: memory_worker.py MODEL OUT.json [STAGE:DTYPE ...]
"""

import gc
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from warpsmith.policy.loading import load_policy
from warpsmith.trainer.config.sections import OptimizerSection, RunSection, ZeroSection
from warpsmith.trainer.distributed.ranks import Ranks, join, leave
from warpsmith.trainer.distributed.rows import Row, pad_rows
from warpsmith.trainer.distributed.zero_engine import ZeroEngine


def storages() -> dict[int, torch.UntypedStorage]:
    """The storages of all tensors that are there now, by address."""
    gc.collect()
    tensors = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor)]
    gradients = [tensor.grad for tensor in tensors if tensor.is_leaf and tensor.grad is not None]
    found = [tensor.untyped_storage() for tensor in (*tensors, *gradients)]
    return {storage.data_ptr(): storage for storage in found}


def measured(model: Path, ranks: Ranks, stage: int, dtype: Any) -> dict[str, int]:
    """Bytes before the first gradient, with one accumulated, while Adam works, and after the update."""
    # Held, so that no address of an earlier case's is used again.
    before = storages()

    def taken() -> int:
        return sum(storage.nbytes() for address, storage in storages().items() if address not in before)

    zero = ZeroSection(stage=stage, bucket_elements=1024)
    engine = ZeroEngine(
        load_policy(model, dtype).model, zero=zero, optimizer=OptimizerSection(lr=1e-3), ranks=ranks, dtype=dtype
    )
    found = {"start": taken()}
    rows = pad_rows([Row(np.arange(3, 35), np.ones(32, np.int64))], ranks.device)
    adam = torch.optim.AdamW.step

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = adam(self, *args, **kwargs)
        found["adam"] = max(found.get("adam", 0), taken())
        return result

    torch.optim.AdamW.step = watched
    for last in (False, True):
        logprobs_BT, _ = engine.logprobs(rows, 1.0)
        engine.accumulate(-logprobs_BT.sum(), last=last)
        del logprobs_BT
        found["accumulated"] = taken()
    engine.step(1e-3)
    torch.optim.AdamW.step = adam
    found["end"] = taken()
    return found


def main() -> None:
    model, out, *cases = sys.argv[1:]
    ranks = join(RunSection(dir=Path("unused"), torch_threads=1), ZeroSection())
    found = {}
    for case in cases:
        stage, dtype = case.split(":")
        found[case] = measured(Path(model), ranks, int(stage), dtype)
    if ranks.drives:
        Path(out).write_text(json.dumps(found))
    ranks.barrier()
    leave()


if __name__ == "__main__":
    main()
