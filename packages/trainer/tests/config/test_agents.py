"""Keys of runs with agents: adapters for each, problems that an interpreter can judge, SFT of each agent."""

from pathlib import Path

import pytest

from warpsmith.trainer.config import load_grpo, load_sft
from warpsmith.trainer.errors import ConfigError
from warpsmith.trainer.launch.each_agent import has_begun, runs_of_agents

GRPO = """
[run]
dir = "runs/x"
[policy]
path = "models/x"
[policy.lora]
rank = 4
[policy.adapters]
generator = "new"
optimizer = "new"
[rollout.environment]
type = "kernelbench_two_role"
"""
SFT = """
[run]
dir = "{run}"
[policy]
path = "models/x"
[data.source]
type = "generated"
size = "gpu"
touched = [16384, 65536]
"""


@pytest.fixture
def grpo(tmp_path: Path):
    def load(*overrides: str, text: str = GRPO):
        file = tmp_path / "grpo.toml"
        file.write_text(text)
        return load_grpo(file, overrides)

    return load


def test_an_adapter_for_each_agent_is_read(grpo) -> None:
    config = grpo()
    assert config.policy.adapters == {"generator": "new", "optimizer": "new"}
    assert config.sends_adapter


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["policy.adapters.critic=new"], "names generator and optimizer and critic"),
        (["rollout.environment.type=kernelbench_multiturn"], "are none, because its environment has no agents"),
        (["policy.lora=unset"], r"adapters are read only with \[policy.lora\]"),
        (["zero.stage=3"], "zero.stage 3 cannot leave an adapter out"),
        (["sync.lora=merged"], "samplers take the adapters alone"),
        (["rollout.sampler.lora_rank=4"], "a run sets it from policy.lora.rank"),
        (['rollout.sampler.lora_agents=["generator"]'], "a run sets it from policy.adapters"),
    ],
)
def test_adapters_that_no_run_can_train_are_refused_in_one_paragraph(grpo, changes: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        grpo(*changes)
    assert "\n" not in refused.value.message


def test_an_agent_without_an_adapter_is_named(grpo) -> None:
    one = GRPO.replace('optimizer = "new"\n', "")
    with pytest.raises(ConfigError, match="adapters names only generator; name one for each agent"):
        grpo(text=one)
    with pytest.raises(ConfigError, match=r"names generator and critic; the agents of .* are generator and optimizer"):
        grpo("policy.adapters.critic=new", text=one)


def test_problems_of_gpu_size_are_judged_on_a_cpu_if_they_touch_little(grpo) -> None:
    grpo("problems.size=gpu", "problems.touched=[16384, 65536]")
    for changes, message in (
        (["problems.size=gpu"], r"too large for the interpreter.*touched = \[16384, 65536\]"),
        (["problems.size=gpu", "problems.touched=[16384, 4194304]"], "too large for the interpreter"),
        (["problems.touched=[16384, 65536]"], "touched is read only with size"),
        (["problems.size=gpu", "problems.touched=[16384, 20000]"], "too few sizes to draw"),
    ):
        with pytest.raises(ConfigError, match=message):
            grpo(*changes)


def test_sft_is_a_run_for_each_agent_and_resumes_what_is_not_finished(tmp_path: Path) -> None:
    file, run = tmp_path / "sft.toml", tmp_path / "run"
    file.write_text(SFT.format(run=run))
    runs = runs_of_agents(load_sft(file))
    assert list(runs) == ["generator", "optimizer"]
    for agent, overrides in runs.items():
        config = load_sft(file, overrides)
        assert (config.run.dir, config.data.source.agent) == (run / agent, agent)
        assert not has_begun(overrides)
    (run / "generator" / "final_model").mkdir(parents=True)
    (run / "optimizer" / "checkpoints").mkdir(parents=True)
    assert [has_begun(own) for own in runs_of_agents(load_sft(file), resume=True).values()] == [True]


def test_sft_trains_one_adapter_and_needs_to_know_whose_examples_are_whose(tmp_path: Path) -> None:
    file = tmp_path / "sft.toml"
    text = SFT.format(run=tmp_path)
    file.write_text(text + '[policy.lora]\n[policy.adapters]\ngenerator = "new"\noptimizer = "new"\n')
    with pytest.raises(ConfigError, match=r"SFT trains one adapter.*--each-agent"):
        load_sft(file)
    file.write_text(text.replace("[data.source]", "[[data.sources]]"))
    with pytest.raises(ConfigError, match="--each-agent needs examples"):
        runs_of_agents(load_sft(file))
