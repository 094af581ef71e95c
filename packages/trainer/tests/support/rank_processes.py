"""Starts a worker of the tests as ranks, on CPUs with gloo or on GPUs with NCCL, and waits for them."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import parallel_worker
import torch

from warpsmith.trainer.launch.port import free_port

WITHIN_S = {"cpu": 500, "cuda": 120}
"""How long ranks may take. On GPUs two lists of cases take seconds, and a rank that waits for ever costs more."""

_NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_EXACT = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
"""Without it cuBLAS may sum in another order each time, and torch refuses to call that deterministic."""


def why_not_on(device: str, count: int) -> str:
    """Return why `count` ranks cannot each have a device here, or nothing if they can."""
    if device == "cpu":
        return ""
    # Counted without a context: a process that has one keeps hundreds of MiB of GPU 0.
    found = torch.cuda.device_count()
    return "" if found >= count else f"needs {count} NVIDIA GPUs; torch sees {found}"


def environment(device: str) -> dict[str, str]:
    """Return the environment of a process that trains on `device` and is no rank yet."""
    inherited = {name: value for name, value in os.environ.items() if name not in _NAMES}
    return {**inherited, **_EXACT, "DS_ACCELERATOR": device}


class RankProcesses:
    """The ranks of one group, each with its own log beside the others'.

    Args:
        command: what each rank runs.
        world: number of ranks.
        folder: where their logs are written; made if it is missing.
        device: `cpu` or `cuda`; rank r has GPU r.
        more: added to their environment.
    """

    def __init__(
        self, command: list[str], world: int, folder: Path, device: str, more: Mapping[str, str] | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        port = str(free_port())
        self.logs = [folder / f"rank-{rank}.log" for rank in range(world)]
        self.processes = [
            subprocess.Popen(
                command, stdout=log.open("wb"), stderr=subprocess.STDOUT,
                env={
                    **environment(device), "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world),
                    "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **(more or {}),
                },
            )
            for rank, log in enumerate(self.logs)
        ]  # fmt: skip

    def finish(self, within_s: float) -> None:
        """Wait until all have ended well; kill all as soon as one has not, since NCCL's ranks would wait for it."""
        deadline = time.monotonic() + within_s
        codes: list[int | None] = [None]
        try:
            while None in codes and not any(codes) and time.monotonic() < deadline:
                time.sleep(0.1)
                codes = [process.poll() for process in self.processes]
        finally:
            self.kill()
        said = "\n".join(f"rank {rank}, exit code {code}:\n{self.said(rank)}" for rank, code in enumerate(codes))
        assert codes == [0] * len(codes), f"within {within_s} s:\n{said}"

    def said(self, rank: int) -> str:
        """Return the end of what a rank wrote."""
        return self.logs[rank].read_text(errors="replace")[-4000:]

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def start_ranks(
    world: int, model: Path, folder: Path, tensor: int, sequence: int, *cases: str, device: str = "cpu"
) -> RankProcesses:
    """Start the worker as `world` ranks; what rank 0 finds will be in `found.pt` in `folder`."""
    command = [sys.executable, parallel_worker.__file__, str(model), str(folder), str(tensor), str(sequence), *cases]
    return RankProcesses(command, world, folder, device)


def run_ranks(
    world: int, model: Path, folder: Path, tensor: int, sequence: int, *cases: str, device: str = "cpu"
) -> dict[str, Any]:
    """Run the worker as `world` ranks; return what rank 0 found, by case, in host memory."""
    start_ranks(world, model, folder, tensor, sequence, *cases, device=device).finish(WITHIN_S[device])
    return found_in(folder)


def found_in(folder: Path) -> dict[str, Any]:
    """Return what rank 0 of finished ranks found, by case."""
    found: dict[str, Any] = torch.load(folder / "found.pt", weights_only=False, map_location="cpu")
    return found
