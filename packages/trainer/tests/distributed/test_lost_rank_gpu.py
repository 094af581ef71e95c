"""A rank that is killed while another waits for it on its GPU, over NCCL: the run ends, says why, and resumes.

On CPUs the same runs over gloo, which notices a lost rank by itself; NCCL's kernels wait for it.
"""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import torch
from rank_processes import RankProcesses, environment, why_not_on
from safetensors.torch import load_file

from warpsmith.records.reader import RunReader

pytestmark = [pytest.mark.timeout(900)]

WAITS_S = 12.0
"""`zero.timeout_minutes` of the ranks without a launcher, in seconds."""
ENDS_WITHIN_S = 45.0
"""After a rank is gone: the launcher polls once a second and gives the others up to 30 s."""

# Deterministic algorithms make a repeated step give the same loss to the last bit on a GPU too.
RANK = """
import runpy
import torch
torch.use_deterministic_algorithms(True)
runpy.run_module("warpsmith.trainer", run_name="__main__", alter_sys=True)
"""
COMMAND = """
import sys
from warpsmith.trainer import cli
from warpsmith.trainer.launch import launcher

plain = launcher.launcher_command
def of_this_rank(arguments, devices, port):
    command = plain(arguments, devices, port)
    command[command.index("warpsmith.trainer")] = "exact_rank"
    return command
launcher.launcher_command = of_this_rank
cli.main()
"""
SFT = """
[run]
dir = "{run}"
steps = 9
torch_threads = 1
[policy]
path = "{policy}"
dtype = "float32"
[data]
max_tokens = 400
batch_size = 8
eval_examples = 8
eval_every = 9
[[data.sources]]
type = "generated"
problems = 60
levels = [1]
prompt_style = "compact"
[optimizer]
lr = 3e-3
warmup_steps = 1
[zero]
stage = 2
micro_batch_tokens = 1024
[checkpoint]
every = 3
keep = 3
[wandb]
mode = "disabled"
"""


@pytest.fixture(
    scope="module",
    params=[pytest.param("cuda", marks=pytest.mark.gpu), pytest.param("cpu", marks=(pytest.mark.slow, pytest.mark.long))],
)
def device(request: pytest.FixtureRequest) -> str:
    """The accelerator of every rank; a test is skipped where two ranks cannot have one each."""
    if why := why_not_on(request.param, 2):
        pytest.skip(why)
    return str(request.param)


class Run:
    """A supervised run of two ranks under the command's own launcher.

    Args:
        folder: where its file, its directory and what the ranks run are.
        policy: the model.
        device: `cpu` or `cuda`.
    """

    def __init__(self, folder: Path, policy: Path, device: str) -> None:
        self.dir, self.file, self.device = folder / "run", folder / "sft.toml", device
        self.file.write_text(SFT.format(run=self.dir, policy=policy))
        (folder / "exact_rank.py").write_text(RANK)

    def start(self, *more: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, "sft", str(self.file), "--num-processes", "2", *more],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            env={**environment(self.device), "PYTHONPATH": str(self.file.parent)},
        )  # fmt: skip
