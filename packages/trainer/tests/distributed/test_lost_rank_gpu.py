"""A rank that is killed while another waits for it on its GPU, over NCCL: the run ends, says why, and resumes.

On CPUs the same runs over gloo, which notices a lost rank by itself; NCCL's kernels wait for it.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from rank_processes import RankProcesses, environment
from safetensors.torch import load_file

from warpsmith.records.reader import NoRecordsError, RunReader

pytestmark = [pytest.mark.timeout(900)]

WAITS_S = 15.0
"""`zero.timeout_minutes` of the ranks without a launcher, in seconds."""
STARTS_WITHIN_S = 240.0
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
steps = 100000
torch_threads = 1
[policy]
path = "{policy}"
dtype = "float32"
[data]
max_tokens = 400
batch_size = 8
eval_examples = 8
eval_every = 100000
[[data.sources]]
type = "generated"
problems = 60
levels = [1]
prompt_style = "compact"
[optimizer]
lr = 3e-3
warmup_steps = 1
schedule = {{ type = "constant" }}
[zero]
stage = 2
micro_batch_tokens = 1024
[checkpoint]
every = 5
keep = 3
[wandb]
mode = "disabled"
"""


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
        """Start the command; it ends with its parent, and all of its ranks with it."""
        inherited = environment(self.device)
        path = inherited.get("PYTHONPATH")
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, "sft", str(self.file), "--num-processes", "2", *more],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            env=inherited | {"PYTHONPATH": os.pathsep.join([str(self.file.parent), *filter(None, [path])])},
        )  # fmt: skip

    def losses(self) -> dict[int, float]:
        """Return the loss of every step on record, none before the first."""
        try:
            table = RunReader(self.dir).table("steps", latest=True)
        except NoRecordsError:
            return {}
        return dict(zip(table["step"].to_pylist(), table["loss"].to_pylist(), strict=True))

    def wait_for_step(self, step: int, process: "subprocess.Popen[str]") -> None:
        deadline = time.monotonic() + STARTS_WITHIN_S
        while max(self.losses(), default=0) < step:
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                pytest.fail(f"step {step} was not reached: {process.communicate(timeout=60)[0][-4000:]}")
            time.sleep(0.1)

    def forget_newest_checkpoint(self) -> int:
        """Remove the newest checkpoint, so that steps are repeated; return the step of the one before."""
        *_, before, newest = sorted((self.dir / "checkpoints").glob("step-????????"))
        shutil.rmtree(newest)
        return int(before.name.removeprefix("step-"))


def ranks_of(process: "subprocess.Popen[str]") -> dict[str, psutil.Process]:
    """Return the ranks of a command by number."""
    family = psutil.Process(process.pid).children(recursive=True)
    return {
        each.environ()["RANK"]: each for each in family if "exact_rank" in each.cmdline() and "RANK" in each.environ()
    }


def killed_at(run: Run, step: int, ranks: tuple[str, ...], *more: str) -> tuple[str, int, float]:
    """Run until a step is on record, then kill ranks; return what was said, the exit code, and how long it took."""
    process = run.start(*more)
    try:
        run.wait_for_step(step, process)
        mine = ranks_of(process)
        assert mine.keys() == {"0", "1"}
        for rank in ranks:
            mine[rank].kill()
        began = time.monotonic()
        said, _ = process.communicate(timeout=ENDS_WITHIN_S + 60)
        assert not any(rank.is_running() and rank.status() != psutil.STATUS_ZOMBIE for rank in mine.values())
        return said, process.returncode, time.monotonic() - began
    finally:
        process.kill()


def test_a_killed_rank_ends_the_run_and_resumed_it_has_the_same_losses(
    accelerator: str, tiny: Path, tmp_path: Path
) -> None:
    run = Run(tmp_path, tiny, accelerator)
    said, code, seconds = killed_at(run, 13, ("1",))
    assert code == 128 + signal.SIGKILL, said[-4000:]
    assert seconds < ENDS_WITHIN_S
    assert said.count("error: ") == 1, said[-4000:]
    assert "error: Rank 1 (pid " in said and "signal 9 (Killed)" in " ".join(said.split()), said[-4000:]
    assert "Traceback" not in said, said[-4000:]
    first = run.losses()
    resumed_at = run.forget_newest_checkpoint()
    assert 5 <= resumed_at < max(first) - 4

    # Both at once, later.
    said, code, seconds = killed_at(run, max(first) + 8, ("0", "1"), "--resume")
    assert code == 128 + signal.SIGKILL, said[-4000:]
    assert seconds < ENDS_WITHIN_S
    second = run.losses()
    again = {step: second[step] for step in first}
    assert again == first, f"resumed at step {resumed_at}"

    resumed_at = run.forget_newest_checkpoint()
    process = run.start("--resume", "--steps", str(max(second) + 2))
    said, _ = process.communicate(timeout=STARTS_WITHIN_S + 60)
    assert process.returncode == 0, said[-4000:]
    third = run.losses()
    assert {step: third[step] for step in second} == second, f"resumed at step {resumed_at}"
    assert sorted(third) == list(range(1, max(second) + 3))
    assert all(value.isfinite().all() for value in load_file(run.dir / "final_model" / "model.safetensors").values())


WORKER = """
import os, signal, sys
from pathlib import Path
import torch
from torch import distributed as dist
from warpsmith.records import commands
from warpsmith.trainer.config.sections import RunSection, ZeroSection
from warpsmith.trainer.distributed.ranks import join, peers_needed

def wait_for_the_other():
    ranks = join(RunSection(dir=Path("unused"), torch_threads=1), ZeroSection(timeout_minutes=float(sys.argv[1]) / 60))
    numbers = torch.ones(1 << 20, device=ranks.device)
    dist.all_reduce(numbers)
    assert numbers.max().item() == 2
    ranks.settle()
    if ranks.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    print("alone", flush=True)
    with peers_needed():
        dist.all_reduce(numbers)
        print("not reached:", numbers.max().item(), flush=True)
commands.run(wait_for_the_other)
"""


def test_without_a_launcher_the_rank_that_is_left_says_so_within_the_timeout(
    accelerator: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if accelerator == "cuda":
        # Seen on two H200s: a minute after its timeout of 15 s it still waited.
        request.applymarker(pytest.mark.xfail(strict=True, reason="a rank in a collective of NCCL waits on"))
    ranks = RankProcesses([sys.executable, "-c", WORKER, str(WAITS_S)], 2, tmp_path, accelerator)
    left, lost = ranks.processes
    try:
        assert lost.wait(STARTS_WITHIN_S) == -signal.SIGKILL, ranks.said(1)
        began = time.monotonic()
        code = left.wait(WAITS_S + ENDS_WITHIN_S)
    finally:
        ranks.kill()
    said = ranks.said(0)
    print(f"{accelerator}: exit code {code} after {time.monotonic() - began:.1f} s; it said:\n{said}")
    assert "alone" in said and "not reached" not in said
    assert code != 0
    assert "error: Another rank of the run has ended" in " ".join(said.split())
