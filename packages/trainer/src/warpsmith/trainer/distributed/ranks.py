"""The processes of a run (ranks) and the communication between them."""

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch import distributed as dist

from warpsmith.trainer.config.sections import RunSection, ZeroSection
from warpsmith.trainer.distributed.lost_peer import is_lost_peer
from warpsmith.trainer.errors import LaunchError
from warpsmith.trainer.launch.launcher import is_launched
from warpsmith.trainer.launch.port import free_port
from warpsmith.trainer.launch.rank_log import quote_dead_ranks

T = TypeVar("T")

_LAUNCHER_S = 5.0
"""In this time DeepSpeed's launcher, which polls once a second, notices a dead rank and ends the others."""


@dataclass(frozen=True)
class Ranks:
    """One process's view of all ranks.

    Attributes:
        rank: this process, from 0; rank 0 drives.
        world: number of ranks.
        device: device of this rank's tensors.
        control: a group for host memory, whatever the device's own backend is.
    """

    rank: int
    world: int
    device: torch.device
    control: Any

    @property
    def drives(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    def shared(self, make: Callable[[], T]) -> T:
        """Return rank 0's result of `make` on every rank; only rank 0 calls `make`."""
        box = [make() if self.drives else None]
        if self.world > 1:
            with peers_needed():
                dist.broadcast_object_list(box, src=0, group=self.control)
        return box[0]  # type: ignore[return-value]

    def total(self, sums: Tensor) -> Tensor:
        """Return the sum of a host tensor over the ranks."""
        if self.world > 1:
            with peers_needed():
                dist.all_reduce(sums, group=self.control)
        return sums

    def settle(self) -> None:
        """Wait until no rank has work left on its GPU: what is timed there next must be alone."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self.barrier()

    def barrier(self) -> None:
        """Wait for every rank."""
        if self.world > 1:
            with peers_needed():
                dist.barrier(group=self.control)


@contextmanager
def peers_needed() -> Iterator[None]:
    """Report the loss of another rank in one sentence instead of a traceback.

    Raises:
        LaunchError: another rank is gone. Under the command's own launcher this rank is ended before it prints: the
            other rank, or the command, has said why.
    """
    try:
        yield
    except RuntimeError as error:
        if not is_lost_peer(error):
            raise
        if is_launched():
            time.sleep(_LAUNCHER_S)
        lost = LaunchError(
            "Another rank of the run has ended, or cannot be reached.",
            "Its own message says why; if there is none, it was killed. Resume with --resume.",
        )
        raise quote_dead_ranks(lost) from error


def join(run: RunSection, zero: ZeroSection) -> Ranks:
    """Join the process group that the launcher created, or a group of one without a launcher."""
    import deepspeed
    from deepspeed.accelerator import get_accelerator

    _alone_without_a_launcher()
    _bind(run)
    _quiet(deepspeed)
    timeout = timedelta(minutes=zero.timeout_minutes)
    accelerator = get_accelerator()
    if accelerator.device_name() == "cpu":
        # Compiling this operator takes 46 s, which does not pay off for a small model; gloo is fast enough.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed(verbose=False, timeout=timeout)
    on_host = dist.get_backend() == "gloo"
    control = dist.group.WORLD if on_host else dist.new_group(backend="gloo", timeout=timeout)
    device = torch.device(accelerator.device_name(int(os.environ["LOCAL_RANK"])))
    ranks = Ranks(dist.get_rank(), dist.get_world_size(), torch.device("cpu") if on_host else device, control)
    seed_everything(run.seed + ranks.rank)
    return ranks


def leave() -> None:
    """Leave the process group, so that no rank waits for a process that has ended."""
    if dist.is_initialized():
        dist.destroy_process_group()


def seed_everything(seed: int) -> None:
    """Seed the generators of Python, numpy and torch."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _alone_without_a_launcher() -> None:
    if "RANK" in os.environ:
        return
    alone = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    os.environ.update({**alone, "MASTER_PORT": str(free_port())})


def _bind(run: RunSection) -> None:
    """Bind this rank to its cores and threads."""
    if run.torch_threads:
        torch.set_num_threads(run.torch_threads)
    if run.cores:
        os.sched_setaffinity(0, {run.cores[int(os.environ["LOCAL_RANK"]) % len(run.cores)]})


def _quiet(deepspeed: Any) -> None:
    """Limit DeepSpeed's log to warnings; the run prints its own progress."""
    deepspeed.utils.logger.setLevel("WARNING")
