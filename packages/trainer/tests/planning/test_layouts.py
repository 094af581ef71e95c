"""What `plan` proposes where a file asks for other GPUs than a machine has: keys that hold together, and then fit."""

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from warpsmith.trainer.config import TrainerConfig, load_grpo, load_sft
from warpsmith.trainer.planning import machines
from warpsmith.trainer.planning.build import plan
from warpsmith.trainer.planning.command import suggested
from warpsmith.trainer.planning.layouts import TRAINS_SOMETHING_ELSE, layouts
from warpsmith.trainer.planning.places import misplaced, places_of
from warpsmith.trainer.planning.shapes import shape_of

EIGHT = """
[run]
dir = "run"
[placement]
train = [0, 1, 2, 3]
rollout = [4, 5, 6]
evaluation = [7]
[policy]
path = "models/qwen3-8b"
gradient_checkpointing = true
[rollout]
samplers = 3
[rollout.sampling]
max_tokens = 8192
[rollout.sampler]
device = "cuda"
max_model_len = 16384
[evaluator]
device = "cuda"
[algorithm.kl]
coefficient = 0.01
[zero]
stage = 3
micro_batch_tokens = 16384
"""
UNNAMED = ("placement.train=[]", "placement.rollout=[]", "placement.evaluation=[]")
IN_RAY = ('rollout.evaluation.type="ray"', "rollout.evaluation.actors=3", "placement.evaluation=[7,8,9]")
SMALL = ("policy.path=models/smollm2-135m", "rollout.sampler.max_model_len=2048", "rollout.sampling.max_tokens=1024")

Command = Callable[..., int]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "grpo.toml"
    path.write_text(EIGHT)
    return path


def settings(keys: tuple[str, ...]) -> list[str]:
    return list(itertools.chain.from_iterable(("--set", key) for key in keys))


def proposed(file: Path, machine: str, *overrides: str, processes: int | None = None) -> tuple[str, ...] | None:
    config = load_grpo(file, overrides)
    made = plan(config, shape_of(config.policy.path), machines.named(machine), processes)
    assert not made.fits
    return suggested(file, overrides, config, made, processes)


# What is proposed ------------------------------------------------------------------------------------------------

PROPOSED = {
    "7xh100-80": ("placement.rollout = [4, 5]", "placement.evaluation = [6]", "rollout.samplers = 2"),
    "6xh100-80": ("placement.rollout = [4]", "placement.evaluation = [5]", "rollout.samplers = 1"),
    "5xh200": (
        "placement.train = [0, 1, 2]", "placement.rollout = [4]", "placement.evaluation = [3]", "rollout.samplers = 1",
    ),
    "4xh200": (
        "placement.train = [0, 1]", "placement.rollout = [2]", "placement.evaluation = [3]", "rollout.samplers = 1",
    ),
    # With more memory to find: the optimizer's state goes to the host, and vLLM leaves room beside the trainer.
    "4xh100-80": (
        "placement.train = [0, 1]", "placement.rollout = [2]", "placement.evaluation = [3]", "rollout.samplers = 1",
        "zero.offload_optimizer = true", 'optimizer.implementation = "cpu"',
    ),
    "2xh200": (
        "placement.train = [0]", "placement.rollout = [0]", "placement.evaluation = [1]", "rollout.samplers = 1",
        "zero.offload_optimizer = true", 'optimizer.implementation = "cpu"',
        "rollout.sampler.gpu_memory_utilization = 0.6",
    ),
    # One GPU does everything in turns; its host has no room for the optimizer's state.
    "1xh200": (
        "placement.train = [0]", "placement.rollout = [0]", "placement.evaluation = [0]", "rollout.samplers = 1",
        "rollout.sampler.gpu_memory_utilization = 0.5", "policy.lora.rank = 16",
    ),
}  # fmt: skip


@pytest.mark.parametrize("machine", PROPOSED)
def test_fewer_gpus_than_the_file_names(
    machine: str, file: Path, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("plan", str(file), "--machine", machine, "--json") == 2
    change = tuple(json.loads(capsys.readouterr().out)["change"])
    assert change == PROPOSED[machine]
    assert command("plan", str(file), "--machine", machine, *settings(change)) == 0, capsys.readouterr().out


def test_the_refusal_names_every_gpu_that_is_missing(
    file: Path, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    config = load_grpo(file)
    assert misplaced(config, places_of(config, 2), 2, "2xh200") == [
        "GPUs 2 and 3 are to train but do not exist: 2xh200 has 2, 0 to 1.",
        "GPUs 4, 5 and 6 are to sample but do not exist: 2xh200 has 2, 0 to 1.",
        "GPU 7 is to judge but does not exist: 2xh200 has 2, 0 to 1.",
    ]
    assert command("plan", str(file), "--machine", "6xh100-80") == 2
    printed = capsys.readouterr().out
    assert "GPU 6 is to sample but does not exist" in printed
    assert "  placement.rollout = [4]\n  placement.evaluation = [5]\n  rollout.samplers = 1\n" in printed


@pytest.mark.parametrize("machine", ["cpu-24g", pytest.param("4x3090", marks=pytest.mark.long)])
def test_where_nothing_fits_that_is_said(
    machine: str, file: Path, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert proposed(file, machine) is None
    assert command("plan", str(file), "--machine", machine) == 2
    printed = " ".join(capsys.readouterr().out.split())
    assert "No known change makes it fit, nor do three at once: use a larger machine" in printed


def test_numbers_alone_cost_nothing_else(file: Path) -> None:
    moved = ("placement.train=[8,9]", "placement.rollout=[1]", "rollout.samplers=1", "placement.evaluation=[5]")
    assert proposed(file, "4xh200", *moved) == ("placement.train = [0, 2]", "placement.evaluation = [3]")
    by_number = ("placement.train=[0,1]", "placement.rollout=[2]", "rollout.samplers=1", "placement.evaluation=[]")
    assert proposed(file, "4xh200", *by_number, "evaluator.gpu=9") == ("evaluator.gpu = 3",)


def test_samplers_of_several_gpus_keep_their_size(file: Path) -> None:
    split = ("rollout.samplers=2", "rollout.sampler.tensor_parallel_size=2", "placement.rollout=[4,5,6,8]")
    assert proposed(file, "7xh100-80", *split) == (
        "placement.rollout = [4, 5]", "placement.evaluation = [6]", "rollout.samplers = 1",
    )  # fmt: skip
    # Two GPUs are one too few for them beside the one that judges.
    small = proposed(file, "2xh100-80", *split, *SMALL)
    assert small is not None
    assert "rollout.sampler.tensor_parallel_size = 1" in small


def test_evaluators_in_ray_become_fewer(file: Path) -> None:
    change = proposed(file, "8xh200", *IN_RAY)
    assert change == (
        "placement.rollout = [4, 5]", "placement.evaluation = [6, 7]", "rollout.samplers = 2",
        "rollout.evaluation.actors = 2",
    )  # fmt: skip


def test_what_shares_a_gpu_goes_on_sharing_and_may_be_parted(file: Path) -> None:
    alone = ("rollout.samplers=1", "evaluator.device=cpu", "placement.evaluation=[]", *SMALL)
    together = ("placement.train=[4]", "placement.rollout=[4]", *alone)
    assert proposed(file, "1xh200", *together, "rollout.sampler.gpu_memory_utilization=0.3") == (
        "placement.train = [0]", "placement.rollout = [0]",
    )  # fmt: skip
    full = load_grpo(file, ["placement.train=[0]", "placement.rollout=[0]", *alone])
    assert layouts(full, 2, None)[0][1] == ("placement.rollout = [1]",)


def test_gpus_that_are_left_open(file: Path) -> None:
    # Each of four GPUs would train, and the first judge too.
    change = proposed(file, "4xh200", *UNNAMED)
    assert change is not None
    config = load_grpo(file, [*UNNAMED, *change])
    assert not misplaced(config, places_of(config, 4), 4, "")
    # A command that starts so many ranks goes on doing so.
    fixed = proposed(file, "6xh200", *UNNAMED, processes=3)
    assert fixed is not None
    assert len(places_of(load_grpo(file, [*UNNAMED, *fixed]), 6, 3).train) == 3
    assert proposed(file, "2xh200", *UNNAMED, processes=3) is None


def test_samplers_that_would_wait_for_gpus_are_refused(file: Path) -> None:
    given = ("placement.train=[0,1]", "placement.rollout=[]", "placement.evaluation=[2]")
    config = load_grpo(file, given)
    (message,) = misplaced(config, places_of(config, 4), 4, "4xh200")
    assert message.startswith("Samplers need 3 GPUs (rollout.samplers = 3, of 1 each), but 2 train")
    assert not misplaced(load_grpo(file, [*given, "run.ray_address=auto"]), places_of(config, 4), 4, "")
    change = proposed(file, "4xh200", *given)
    assert change is not None
    assert "rollout.samplers = 1" in change


def test_ranks_of_an_sft_run_that_have_no_gpu(tmp_path: Path) -> None:
    path = tmp_path / "sft.toml"
    path.write_text('[run]\ndir = "run"\n[policy]\npath = "models/smollm2-135m"\n[data.source]\nproblems = 10\n')
    config = load_sft(path)
    made = plan(config, shape_of(config.policy.path), machines.named("2xh200"), 3)
    assert made.misfits == ["GPU 2 is to train but does not exist: 2xh200 has 2, 0 to 1."]
    assert suggested(path, [], config, made, 3) is None


def test_a_machine_without_gpus(file: Path, command: Command) -> None:
    small = (*SMALL, "evaluator.timing=false")
    change = proposed(file, "cpu-64g", *small)
    assert change is not None
    assert 'rollout.sampler.device = "cpu"' in change
    assert command("plan", str(file), "--machine", "cpu-64g", *settings((*small, *change))) == 0
    assert proposed(file, "cpu-64g", *small, "policy.kernels=liger") is None


# All layouts -----------------------------------------------------------------------------------------------------

FILES = {
    "as_it_is": (),
    "two_gpus_each": ("rollout.samplers=2", "rollout.sampler.tensor_parallel_size=2", "placement.rollout=[4,5,6,8]"),
    "three_gpus_a_sampler": ("rollout.samplers=1", "rollout.sampler.tensor_parallel_size=3"),
    "in_ray": IN_RAY,
    "in_ray_untimed": (*IN_RAY, "evaluator.timing=false"),
    "in_ray_on_a_cpu": ("rollout.evaluation.type=ray", "evaluator.device=cpu", "placement.evaluation=[]"),
    "untimed": ("evaluator.timing=false",),
    "untimed_on_one": ("evaluator.timing=false", "placement.evaluation=[0]", "placement.rollout=[0,1,2]"),
    "unnamed": UNNAMED,
    "by_number": ("evaluator.gpu=7", "placement.evaluation=[]"),
    "sampled_on_cpu": ("placement.rollout=[]", "rollout.sampler.device=cpu"),
    "together": ("placement.rollout=[0,1,2]",),
    "cluster": ("placement.rollout=[]", "run.ray_address=auto"),
    "served": (
        "placement.evaluation=[]", "rollout.evaluation.type=server",
        'rollout.evaluation.servers=["http://127.0.0.1:1"]',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_every_layout_is_a_file_that_is_accepted_and_stands_on_the_machine(name: str, file: Path) -> None:
    # Servers have settings of their own.
    file.write_text(EIGHT.replace('[evaluator]\ndevice = "cuda"\n', "") if name == "served" else EIGHT)
    given = FILES[name]
    config = load_grpo(file, given)
    for gpus, processes in itertools.product(range(11), (None, 2)):
        if processes and config.placement.train:
            continue
        for cost, keys in layouts(config, gpus, processes):
            changed = load_grpo(file, [*given, *keys])
            places = places_of(changed, gpus, processes)
            assert not misplaced(changed, places, gpus, ""), (gpus, keys)
            assert len(places.evaluation) == len(set(places.evaluation))
            if gpus:
                same = cost < TRAINS_SOMETHING_ELSE
                assert same == (changed.evaluator.timing == config.evaluator.timing), (gpus, keys)
            if gpus and changed.rollout.evaluation.type == "ray":
                # Ray gives a GPU to one actor.
                assert not set(places.evaluation) & set(places.rollout), (gpus, keys)


def test_what_costs_least_comes_first(file: Path) -> None:
    def kept(keys: tuple[str, ...]) -> tuple[int, bool, bool]:
        config: TrainerConfig = load_grpo(file, keys)
        places = config.placement
        shared, timed = set(places.train) & set(places.rollout), set(places.evaluation)
        return len(places.train), bool(shared), bool(timed & {*places.train, *places.rollout})

    every = [kept(keys) for cost, keys in layouts(load_grpo(file), 6, None) if cost < TRAINS_SOMETHING_ELSE]
    # Timing in turns with other work comes last.
    assert sorted(in_turns for _, _, in_turns in every) == [in_turns for _, _, in_turns in every]
    assert every[-1][2]
    found = [(train, both) for train, both, in_turns in every if not in_turns]
    assert found[0] == (4, False)
    parted, shared = [train for train, both in found if not both], [train for train, both in found if both]
    assert [both for _, both in found] == [False] * len(parted) + [True] * len(shared)
    assert parted == [4, 3, 2, 1, 1]
    assert shared[0] == 4


def test_layouts_stay_few(file: Path) -> None:
    many = ("rollout.sampler.tensor_parallel_size=8", f"placement.rollout={list(range(8, 32))}", *IN_RAY)
    given = (*many, "placement.evaluation=[40,41,42]")
    assert len(layouts(load_grpo(file, given), 64, None)) <= 4 * 12


# An unknown task -------------------------------------------------------------------------------------------------


def test_a_task_that_is_not_there_is_refused_before_memory_is_computed(
    file: Path, command: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = ("--set", 'rollout.environment.type="kernelbench_multi"')
    assert command("plan", str(file), "--machine", "8xh100-80", *wrong) == 2
    printed = " ".join(capsys.readouterr().err.split())
    assert "There is no environment `kernelbench_multi`; installed are kernelbench, kernelbench_generate, " in printed
    assert "Did you mean `kernelbench_multiturn`?" in printed


def test_a_plan_is_made_without_torch(file: Path) -> None:
    code = (
        "import sys; from warpsmith.trainer.cli import main\n"
        f"sys.argv = ['warpsmith-trainer', 'plan', {str(file)!r}, '--machine', '6xh100-80']\n"
        "try: main()\n"
        "except SystemExit as ended: assert ended.code == 2, ended.code\n"
        "bad = {'torch', 'vllm', 'ray', 'deepspeed', 'transformers'} & set(sys.modules); assert not bad, bad"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
