"""The processes of a run (ranks) and the communication between them."""

import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch import distributed as dist

from warpsmith.policy.sequence_parallel import Split
from warpsmith.trainer.config.parallel import WHOLE, ParallelSection
from warpsmith.trainer.config.sections import RunSection, ZeroSection
from warpsmith.trainer.distributed.lost_peer import is_lost_peer
from warpsmith.trainer.errors import LaunchError
from warpsmith.trainer.launch.launcher import is_launched
from warpsmith.trainer.launch.port import free_port
from warpsmith.trainer.launch.rank_log import quote_dead_ranks

T = TypeVar("T")

_LAUNCHER_S = 5.0
"""Within this time DeepSpeed's launcher, which polls once a second, notices a dead rank and ends the others."""


@dataclass(frozen=True)
class Ranks:
    """One process's view of all ranks.

    `parallel.tensor` x `parallel.sequence` neighbours form a team, which computes the same rows together. Within it,
    neighbours share layers, and those at the same place of each such group share rows.

    Attributes:
        rank: this process, from 0; rank 0 drives.
        world: number of ranks.
        device: device of this rank's tensors.
        control: a group for host memory, whatever the device's own backend is.
        parallel: over how many ranks a layer and a row are split.
        layers: the ranks that share the layers that this rank has a part of; None if each has whole layers.
        rows: the ranks that share this rank's rows; None if each has whole rows.
    """

    rank: int
    world: int
    device: torch.device
    control: Any
    parallel: ParallelSection = WHOLE
    layers: Split | None = None
    rows: Split | None = None

    @property
    def drives(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    @property
    def teams(self) -> int:
        """Number of teams, over which the rows of a batch are dealt."""
        return self.world // self.parallel.team

    @property
    def team(self) -> int:
        """The team of this rank, from 0."""
        return self.rank // self.parallel.team

    @property
    def replicas(self) -> int:
        """Number of ranks with the same part of the layers, over which DeepSpeed averages gradients."""
        return self.world // self.parallel.tensor

    def shared(self, make: Callable[[], T]) -> T:
        """Return rank 0's result of `make` on every rank; only rank 0 calls `make`."""
        box = [make() if self.drives else None]
        if self.world > 1:
            with peers_needed():
                dist.broadcast_object_list(box, src=0, group=self.control)
        return box[0]  # type: ignore[return-value]

    def total(self, sums: Tensor) -> Tensor:
        """Return the sum of a host tensor over the teams, whose ranks all have that of their team."""
        if self.rank % self.parallel.team:
            sums = torch.zeros_like(sums)
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


def join(run: RunSection, zero: ZeroSection, parallel: ParallelSection = WHOLE) -> Ranks:
    """Join the process group that the launcher created, or a group of one without a launcher.

    Raises:
        ConfigError: the launcher started a number of ranks that teams cannot be made of.
    """
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
    parallel.check_world(dist.get_world_size())
    ranks = Ranks(dist.get_rank(), dist.get_world_size(), torch.device("cpu") if on_host else device, control, parallel)
    # Ranks that share layers have the same activations, and so must draw the same dropout.
    seed_everything(run.seed + ranks.rank // parallel.tensor)
    return _grouped(ranks, timeout)


def _grouped(ranks: Ranks, timeout: timedelta) -> Ranks:
    """Return the ranks with their groups; collective: every rank makes every group."""
    tensor, sequence = ranks.parallel.tensor, ranks.parallel.sequence
    sharing_layers = [range(first, first + tensor) for first in range(0, ranks.world, tensor)]
    sharing_rows = [
        range(team + place, team + tensor * sequence, tensor)
        for team in range(0, ranks.world, tensor * sequence)
        for place in range(tensor)
    ]
    layers = _group_of(ranks, sharing_layers, timeout) if tensor > 1 else None
    rows = _group_of(ranks, sharing_rows, timeout) if sequence > 1 else None
    return replace(ranks, layers=layers, rows=rows)


def _group_of(ranks: Ranks, groups: Sequence[range], timeout: timedelta) -> Split:
    """Make the groups, and return the one that this rank belongs to."""
    made = {members: dist.new_group(list(members), timeout=timeout) for members in groups}
    mine = next(members for members in groups if ranks.rank in members)
    return Split(made[mine], len(mine), mine.index(ranks.rank))


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
