"""Small real parts that the tests share: a tiny model, turns as the records hold them."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from hypothesis import settings

# pytest's importlib mode leaves sys.path alone, and the tests share what stands in support/.
sys.path.insert(0, str(Path(__file__).parent / "support"))
pytest.register_assert_rewrite("parallel_checks")

# How long an example takes says nothing on a machine that does other work as well.
EXAMPLES = int(os.environ.get("WARPSMITH_EXAMPLES", "40"))
settings.register_profile("unhurried", settings(), deadline=None, max_examples=EXAMPLES)
settings.load_profile("unhurried")

# The entropy term gives every turn a gradient, whatever an untrained model earns.
GRPO = """
[run]
console = "turns"
dir = "{run}"
steps = 2
torch_threads = 1
[policy]
path = "{policy}"
dtype = "float32"
[problems]
count = 8
levels = [1]
[rollout]
prompt_style = "compact"
[rollout.environment]
max_turns = 2
[evaluator]
trials = 1
[rollout.sampling]
max_tokens = 24
[rollout.sampler]
dtype = "float32"
max_model_len = 512
[algorithm]
prompts_per_step = 2
samples_per_prompt = 2
entropy_coefficient = 0.01
[algorithm.kl]
coefficient = 0.01
[optimizer]
lr = 1e-3
[zero]
stage = {stage}
micro_batch_tokens = 512
[held_out]
problems = 2
[checkpoint]
every = 1
keep = 3
[wandb]
mode = "{wandb}"
"""


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs `warpsmith-trainer` with arguments in this process; returns the exit code."""
    from warpsmith.trainer.cli import main

    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["warpsmith-trainer", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0)

    return run


@pytest.fixture(scope="session")
def grpo_text() -> str:
    """A small GRPO run as TOML: `run`, `policy`, `stage` and `wandb` are to be filled in."""
    return GRPO


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small decoder whose tokenizer was trained on generated examples."""
    from warpsmith.policy.tiny import build_tiny
    from warpsmith.rollout.generator import generate
    from warpsmith.trainer.data.generated import sft_examples

    chats = sft_examples(generate(seed=0, count=60), 0, "compact")
    texts = [message["content"] for chat in chats for message in chat]
    return build_tiny(
        tmp_path_factory.mktemp("model") / "tiny", texts, vocab_size=600, layers=2, hidden=64, heads=2, kv_heads=1
    )


@pytest.fixture(scope="session")
def split_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen3 with heads for two ranks, and norms of queries and keys that each of them sees a part of."""
    from warpsmith.policy.tiny import build_tiny

    path = tmp_path_factory.mktemp("model") / "split"
    return build_tiny(path, ["abc def"] * 8, vocab_size=300, layers=2, hidden=128, heads=4, kv_heads=2)


@pytest.fixture(scope="session")
def writer(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small decoder after 60 steps on the beginnings of answers: its completions begin as code does.

    An untrained policy draws tokens evenly: about one completion in sixty has a line that code could begin with, so
    whether a run of few turns evaluates anything is luck.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from warpsmith.rollout.generator import generate
    from warpsmith.trainer.data.generated import sft_examples

    tokenizer = AutoTokenizer.from_pretrained(tiny)
    model = AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    chats = sft_examples(generate(seed=0, count=60), 0, "compact")
    for step in range(60):
        for *prompt, answer in chats[step * 4 % 60 :][:4]:
            start = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=False)
            begun = tokenizer(answer["content"])["input_ids"][:24]
            labels = torch.tensor([[-100] * len(start) + begun])
            model(torch.tensor([start + begun]), labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    path = tmp_path_factory.mktemp("model") / "writer"
    tokenizer.save_pretrained(path)
    model.save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def whole_run(
    writer: Path, grpo_text: str, kill_seed: int, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path, str]:
    """A GRPO run of four steps that nobody disturbed: its directory, its file, and what it said.

    It is the one for all tests that look at what a run leaves, or compare another with it bit for bit. Beside it lies
    `cut`, a copy of its directory at a random moment (`kill_seed`): what a kill would have left then.

    What the sampler's rounding hangs on is who else it samples for, so the trainer computes the old log-probabilities.
    """
    run = tmp_path_factory.mktemp("grpo") / "whole"
    config = run.parent / "grpo.toml"
    text = grpo_text.format(run=run, policy=writer, stage=2, wandb="offline")
    changes = {"steps = 2": "steps = 4\nlive_json = true", "every = 1": "every = 2", "keep = 3": "keep = 1"}
    changes |= {"[algorithm]": '[algorithm]\nold_logprobs = "recompute"', "[checkpoint]": "every = 2\n[checkpoint]"}
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    config.write_text(text)
    command = [sys.executable, "-m", "warpsmith.trainer", "grpo", str(config)]
    # A process group that a test made in this process may have left the names of a rank behind.
    environment = {name: value for name, value in os.environ.items() if name not in RANK_NAMES}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    turns = random.Random(kill_seed).randint(1, TURNS_BEFORE_THE_LAST_STEP)
    said = said_until_turn(process, turns)
    copy_as_a_kill_would_leave_it(process, run, run.parent / "cut")
    said += process.communicate(timeout=600)[0]
    assert process.returncode == 0, said[-4000:]
    return run, config, said


TURNS_BEFORE_THE_LAST_STEP = 4 + 8 * 3
"""Held-out turns and those of three steps, as far as no episode ends early."""


@pytest.fixture(scope="session")
def kill_seed() -> int:
    """The seed of the moment at which a run is cut off: another each time, or WARPSMITH_KILL_SEED."""
    return int(os.environ.get("WARPSMITH_KILL_SEED", random.SystemRandom().getrandbits(32)))


def said_until_turn(process: "subprocess.Popen[str]", turns: int) -> str:
    """Return what a run says until it has reported so many turns."""
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        turns -= line.startswith("[Turn")
        if turns <= 0:
            break
    return said


def copy_as_a_kill_would_leave_it(process: "subprocess.Popen[str]", run: Path, copy: Path) -> None:
    """Copy the directory of a run while none of its processes runs."""
    assert process.poll() is None
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for signal_ in (signal.SIGSTOP, signal.SIGCONT):
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.send_signal(signal_)
        if signal_ is signal.SIGSTOP:
            shutil.copytree(run, copy, symlinks=True)


RANK_NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

Row = dict[str, Any]


def turn_row(**changes: Any) -> Row:
    """A valid row of TURNS, with `changes`."""
    row: Row = {
        "run": "r", "task": "t", "role": "train", "problem": "p", "source": "s", "level": 1,
        "group": "g0", "trajectory": "g0/0", "sample": 0, "turn": 0, "num_turns": 1,
        "messages": [{"role": "user", "content": "q"}], "completion": "a", "kernel": None,
        "prompt_ids": [1, 2, 3], "completion_ids": [4, 5], "logprobs": [-0.5, -1.0], "weight_versions": [0, 0],
        "finish_reason": "stop", "sampling": {"temperature": 1.0, "max_tokens": 8},
        "verdict": {"status": "incorrect", "compiled": True, "correct": False},
        "reward": 0.1, "return": 0.1, "valid": True, "invalid_reason": None, "started_at": datetime.now(UTC),
    }  # fmt: skip
    return {**row, **changes}


@pytest.fixture
def turns_table() -> Callable[[list[Row]], pa.Table]:
    """Makes a table of TURNS from changes to a valid row."""
    from warpsmith.records.schema import turns_batch

    return lambda changes: pa.Table.from_batches([turns_batch([turn_row(**change) for change in changes])])


@pytest.fixture(scope="session")
def alone() -> Iterator[Any]:
    """A process group of one, as a run without a launcher has it; DeepSpeed takes one a process only."""
    from warpsmith.trainer.config.sections import RunSection, ZeroSection
    from warpsmith.trainer.distributed.ranks import join, leave

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DS_ACCELERATOR", "cpu")
        for name in RANK_NAMES:
            os.environ.pop(name, None)
        ranks = join(RunSection(dir=Path("unused"), torch_threads=1), ZeroSection())
        # A command that a test starts is not to take itself for this rank; DeepSpeed still asks for LOCAL_RANK.
        for name in RANK_NAMES:
            if name != "LOCAL_RANK":
                os.environ.pop(name, None)
    yield ranks
    leave()


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("cuda", marks=pytest.mark.gpu),
        # Of the same code; what other tests compute on CPUs is not asked for again in every run.
        pytest.param("cpu", marks=(pytest.mark.slow, pytest.mark.long)),
    ],
)
def accelerator(request: pytest.FixtureRequest) -> str:
    """The accelerator of two ranks; a test is skipped where they cannot have one each."""
    from rank_processes import why_not_on

    if why := why_not_on(request.param, 2):
        pytest.skip(why)
    return str(request.param)
