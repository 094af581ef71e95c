"""Every part of a small GRPO run is killed, stopped or starved in turn, at a random moment of a running step.

The run goes on, or it ends within a deadline with one paragraph that names the cause, and continues with --resume. A
run serves several faults, in the order of the file, since a start takes most of a minute; each test resumes it where
it does not run, so any of them may be picked by itself.
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from records_of import check_records, check_verdicts
from struck_run import SLOW_INPUTS, StruckRun, paragraph

from warpsmith.evaluator.server.child import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)]

PROMPTS, SAMPLES = 2, 4

# The entropy term gives every turn a gradient, so that every step syncs; the rate leaves the policy what it has learnt.
CONFIG = f"""
[run]
dir = "{{run}}"
steps = 100000
torch_threads = 1
[policy]
path = "{{policy}}"
dtype = "float32"
[problems]
type = "files"
path = "{{problems}}"
levels = [1]
[rollout]
prompt_style = "compact"
[rollout.environment]
max_turns = 2
[evaluator]
trials = 2
[rollout.sampling]
max_tokens = 64
[rollout.sampler]
dtype = "float32"
max_model_len = 512
[algorithm]
prompts_per_step = {PROMPTS}
samples_per_prompt = {SAMPLES}
entropy_coefficient = 0.001
[optimizer]
lr = 1e-5
[zero]
micro_batch_tokens = 512
[checkpoint]
every = 1
export_final = false
[wandb]
mode = "{{wandb}}"
"""

STOPS_S = 60.0
"""How long a run may take to end that cannot go on."""


@pytest.fixture(scope="module")
def seed() -> int:
    """Seed of the moments; FAULTS_SEED repeats a run of the tests."""
    chosen = int(os.environ.get("FAULTS_SEED", random.SystemRandom().randrange(1 << 32)))
    print(f"FAULTS_SEED={chosen}")
    return chosen


@pytest.fixture(scope="module")
def disk(tmp_path_factory) -> Iterator[Path]:
    """A file system of 64 MiB."""
    folder = tmp_path_factory.mktemp("disk")
    mounted = _command("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder)
    if mounted:
        pytest.skip(f"a small file system cannot be mounted here: {mounted}")
    yield folder
    _command("umount", "-l", folder)


@pytest.fixture(scope="module")
def alone(disk: Path, policy: Path, problems: Path, seed: int) -> Iterator[StruckRun]:
    """One rank, one engine, an evaluator beside them, on a small disk."""
    config = disk / "grpo.toml"
    config.write_text(CONFIG.format(run=disk / "run", policy=policy, problems=problems, wandb="disabled"))
    run = StruckRun(config, disk / "run", seed=seed)
    yield run
    run.close()


@pytest.fixture(scope="module")
def spread(tmp_path_factory, policy: Path, problems: Path, seed: int) -> Iterator[StruckRun]:
    """Two ranks, one engine, an evaluator in Ray, W&B with its own process."""
    folder = tmp_path_factory.mktemp("spread")
    config = folder / "grpo.toml"
    text = CONFIG.format(run=folder / "run", policy=policy, problems=problems, wandb="offline")
    config.write_text(text + '[rollout.evaluation]\ntype = "ray"\n')
    run = StruckRun(config, folder / "run", seed=seed, processes=2)
    yield run
    run.close()


@pytest.fixture(scope="module")
def server(alone: StruckRun) -> Iterator["Server"]:
    """An evaluation server that can be stopped and started on the same port."""
    running = Server()
    yield running
    running.process.kill()


class Server:
    """An evaluation server with one address for its whole life, whatever becomes of its process."""

    def __init__(self) -> None:
        self.process = ServerProcess("--slots", "2")
        self.port, self.url = self.process.port, self.process.url

    def options(self) -> list[str]:
        """Options that have candidates judged here, with a short deadline."""
        keys = {"type": "server", "servers": self.url, "deadline_s": "15"}
        return [part for key, value in keys.items() for part in ("--set", f"rollout.evaluation.{key}={value}")]

    def revive(self) -> None:
        """Restart it."""
        self.process = ServerProcess("--slots", "2", port=self.port)


# One rank --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("part", "blows"), [("worker", 4), ("zygote", 2), ("judge", 2), ("engine", 1)])
def test_what_is_killed_is_replaced_and_the_run_goes_on(alone: StruckRun, part: str, blows: int) -> None:
    alone.ensure()
    for _ in range(blows):
        alone.await_moment()
        alone.strike(part)
        alone.await_step()
        alone.await_step()


def test_a_full_disk_ends_the_run(alone: StruckRun, disk: Path) -> None:
    alone.ensure()
    alone.await_moment()
    filler = disk / "filler"
    _fill(filler)
    assert alone.await_end(STOPS_S) != 0
    # The records or a checkpoint, whichever came first; torch does not say why a checkpoint cannot be written.
    assert re.search(r"No space left on device|could not be written, with 0\.0 MiB free", paragraph(alone.said))
    filler.unlink()
    assert not alone.leftovers()


def test_checkpoints_that_cannot_be_written_end_the_run(alone: StruckRun) -> None:
    alone.ensure()
    alone.await_moment()
    checkpoints = alone.dir / "checkpoints"
    assert not _command("mount", "--bind", checkpoints, checkpoints)
    try:
        # Refused while a checkpoint is being written there.
        for _ in range(100):
            if not (refused := _command("mount", "-o", "remount,bind,ro", checkpoints)):
                break
            alone.pause(0.1)
        assert not refused
        assert alone.await_end(STOPS_S) != 0
    finally:
        _command("umount", checkpoints)
    message = paragraph(alone.said)
    assert "Read-only file system" in message
    assert "--resume" in message


def test_a_server_that_stops_for_a_while_costs_time_only_and_one_that_is_gone_ends_the_run(
    alone: StruckRun, server: Server
) -> None:
    alone.ensure(*server.options())
    alone.await_moment()
    server.process.process.send_signal(signal.SIGSTOP)
    alone.pause(5.0)
    server.process.process.send_signal(signal.SIGCONT)
    alone.await_step()
    alone.await_moment()
    server.process.kill()
    server.revive()
    alone.await_step()
    alone.await_moment()
    server.process.kill()
    assert alone.await_end(STOPS_S) != 0
    assert f"The evaluation server {server.url} cannot be reached" in paragraph(alone.said)
    server.revive()


def test_an_engine_that_answers_no_more_ends_the_run(alone: StruckRun) -> None:
    alone.ensure("--set", "rollout.generate_timeout_s=5", "--set", "rollout.sampler.update_timeout_s=10")
    alone.await_moment()
    alone.strike("engine", signal.SIGSTOP)
    assert alone.await_end(STOPS_S) != 0
    paragraph(alone.said)


def test_after_all_that_the_records_are_whole(alone: StruckRun, problems: Path) -> None:
    alone.ensure()
    alone.stop()
    assert not alone.leftovers()
    assert not list((alone.dir / "checkpoints").glob(".*"))
    turns = check_records(alone.dir, prompts=PROMPTS, samples=SAMPLES)
    texts = {
        f"kernelbench/level1/{row['name']}": row["code"].replace(SLOW_INPUTS, "def get_inputs():\n")
        for row in map(json.loads, problems.read_text().splitlines())
    }
    struck = [row for row in turns if row["after_step"] + 1 in alone.struck]
    assert check_verdicts(struck, texts) > len(struck) / 10


# Two ranks -------------------------------------------------------------------------------------------------------


def test_an_evaluator_actor_that_is_killed_is_replaced(spread: StruckRun) -> None:
    spread.ensure()
    spread.await_moment()
    spread.strike("evaluator actor")
    spread.await_step()
    spread.await_step()


def test_the_run_goes_on_without_wandb_where_its_process_is_killed(spread: StruckRun) -> None:
    spread.ensure()
    spread.await_moment()
    spread.strike("wandb")
    spread.await_words("W&B failed")
    spread.await_step()


@pytest.mark.parametrize("part", ["rank 1", "raylet", "gcs", "rank 0", "launcher"])
def test_a_part_that_cannot_be_replaced_ends_the_run(spread: StruckRun, part: str) -> None:
    spread.ensure()
    spread.await_moment()
    spread.strike(part)
    assert spread.await_end(STOPS_S) != 0
    assert "--resume" in paragraph(spread.said)
    assert not spread.leftovers()


def test_a_command_that_is_killed_takes_everything_with_it(spread: StruckRun) -> None:
    spread.ensure()
    spread.await_moment()
    spread.strike("command")
    assert spread.await_end(STOPS_S) == -signal.SIGKILL
    assert not spread.leftovers()


def test_after_all_that_the_records_of_two_ranks_are_whole(spread: StruckRun) -> None:
    spread.ensure()
    spread.stop()
    assert not spread.leftovers()
    assert not list((spread.dir / "checkpoints").glob(".*"))
    check_records(spread.dir, prompts=PROMPTS, samples=SAMPLES)


def _command(*words: object) -> str:
    """Run a command; return what it complains of, or nothing."""
    program = shutil.which(str(words[0]))
    if program is None:
        return f"there is no {words[0]}"
    done = subprocess.run([program, *map(str, words[1:])], capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


def _fill(path: Path) -> None:
    """Take all the room that is left on a disk."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                continue
