"""An adapter for each agent on one base: each trained, kept, sent and exported by itself."""

import json
from pathlib import Path

import pytest
import torch
from adapter_training import LORA, Training, elements, plain_logprobs, rows
from safetensors.torch import load_file
from torch import Tensor

from warpsmith.policy import adapters
from warpsmith.policy.config import LoraSettings, PolicyConfig
from warpsmith.policy.errors import AdapterError, BaseMismatchError
from warpsmith.policy.loading import load_policy
from warpsmith.policy.tiny import build_tiny
from warpsmith.trainer.config.sections import OptimizerSection, ZeroSection
from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.distributed.reference_policy import PolicyWithoutAdapters
from warpsmith.trainer.distributed.trained_policy import load_to_train
from warpsmith.trainer.distributed.zero_engine import ZeroEngine
from warpsmith.trainer.doctor.files import adapter_layers
from warpsmith.trainer.weights.consolidate import consolidate
from warpsmith.trainer.weights.export import export
from warpsmith.trainer.weights.sync import payload_of

AGENTS = ("generator", "optimizer")
NEW = dict.fromkeys(AGENTS, "new")


class TwoAdapters(Training):
    """Two adapters on the tiny model in training under one stage."""

    def __init__(self, base: Path, ranks: Ranks, stage: int, starts: dict[str, str] | None = None, dtype="float32"):
        self.config = PolicyConfig(path=base, dtype=dtype, lora=LORA, adapters=starts or NEW)
        self.zero, self.ranks = ZeroSection(stage=stage), ranks
        self.policy = load_to_train(self.config, 0)
        self.engine = ZeroEngine(
            self.policy.model, zero=self.zero, optimizer=OptimizerSection(lr=1e-2), ranks=ranks, dtype=dtype,
            lora=LORA, agents=AGENTS,
        )  # fmt: skip

    def train_agent(self, agent: str, steps: int = 1) -> list[float]:
        """Make steps of one agent's adapter; return the norms of their gradients."""
        self.engine.train()
        self.engine.act_as(agent)
        norms = []
        for _ in range(steps):
            logprobs_BT, _ = self.engine.logprobs(rows(), 1.0)
            self.engine.accumulate(-logprobs_BT.mean(), last=True)
            norms.append(self.engine.step(1e-2, agent))
        return norms

    def factors_of(self, agent: str) -> dict[str, Tensor]:
        return dict(self.engine.adapter_weights(1 << 12, agent))

    def logprobs_of(self, agent: str) -> Tensor:
        self.engine.act_as(agent)
        return self.logprobs()


def same(one: dict[str, Tensor], two: dict[str, Tensor]) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


@pytest.fixture(params=[(0, "float32"), (1, "float32"), (2, "float32"), (2, "bfloat16")], ids=str)
def kind(request: pytest.FixtureRequest) -> tuple[int, str]:
    return request.param


def test_a_step_of_one_agent_leaves_the_other_alone_and_is_that_of_an_adapter_by_itself(
    tiny: Path, alone: Ranks, kind: tuple[int, str]
) -> None:
    """In turns, they go where each of them goes without the other: moments, weight decay, clipping and all."""
    stage, dtype = kind
    mixed, apart = (TwoAdapters(tiny, alone, stage, dtype=dtype) for _ in range(2))
    norms = {agent: [] for agent in AGENTS}
    for agent in ("generator", "optimizer", "optimizer", "generator", "generator"):
        other = next(name for name in AGENTS if name != agent)
        before = mixed.factors_of(other)
        norms[agent] += mixed.train_agent(agent)
        assert same(before, mixed.factors_of(other))
    for agent, steps in (("generator", 3), ("optimizer", 2)):
        assert apart.train_agent(agent, steps) == norms[agent]
        assert same(apart.factors_of(agent), mixed.factors_of(agent))
        assert any(value.any() for name, value in mixed.factors_of(agent).items() if "lora_B" in name)
    assert not same(mixed.factors_of("generator"), mixed.factors_of("optimizer"))


def test_both_are_kept_and_a_resume_goes_on_bit_for_bit(tiny: Path, alone: Ranks, tmp_path: Path) -> None:
    training = TwoAdapters(tiny, alone, 2)
    for agent in (*AGENTS, "generator"):
        training.train_agent(agent)
    path = training.save(tmp_path)
    resumed = TwoAdapters(tiny, alone, 2)
    resumed.engine.load(path)
    for one in (training, resumed):
        one.train_agent("optimizer", 2)
        one.train_agent("generator")
    for agent in AGENTS:
        assert same(training.factors_of(agent), resumed.factors_of(agent))
    factors = sum(value.numel() for agent in AGENTS for value in training.factors_of(agent).values())
    kept = [elements(torch.load(file, weights_only=False)) for file in (path / "zero").iterdir()]
    assert 3 * factors <= sum(kept) <= 4 * factors + 1_000
    out = consolidate(path, tmp_path / "adapters", form="adapter")
    assert {folder.name for folder in out.iterdir()} == set(AGENTS)


def test_the_base_is_the_reference_of_both(tiny: Path, alone: Ranks) -> None:
    training = TwoAdapters(tiny, alone, 2)
    for agent in AGENTS:
        training.train_agent(agent, 2)
    reference = PolicyWithoutAdapters(training.engine).logprobs(rows(), 1.0)[0]
    torch.testing.assert_close(reference, plain_logprobs(load_policy(tiny)), atol=1e-5, rtol=0)
    before = {agent: training.logprobs_of(agent) for agent in AGENTS}
    # A pass without adapters must leave both of them trainable.
    training.train_agent("optimizer")
    assert torch.equal(training.logprobs_of("generator"), before["generator"])
    assert (training.logprobs_of("optimizer") - before["optimizer"]).abs().max() > 1e-3


def test_the_payload_and_the_export_have_both(tiny: Path, alone: Ranks, tmp_path: Path) -> None:
    training = TwoAdapters(tiny, alone, 2)
    training.train_agent("generator", 2)
    training.train_agent("optimizer")
    payload = payload_of(training.engine, alone, 3, 1 << 12, adapter=True)
    assert payload is not None and payload.adapter is not None
    assert payload.adapter.agents == AGENTS
    payload.check({name: tuple(value.shape) for name, value in load_policy(tiny).model.named_parameters()})
    target = export(training.policy, training.engine, alone, tmp_path / "final_model", 1 << 12)
    for agent in AGENTS:
        sent = {name.removeprefix(f"{agent}/"): value for name, value in payload.tensors() if name.startswith(agent)}
        assert same(sent, training.factors_of(agent))
        written = load_file(tmp_path / "final_adapter" / agent / "adapter_model.safetensors")
        assert same(written, training.factors_of(agent))
        merged = plain_logprobs(load_policy(target / agent))
        torch.testing.assert_close(merged, training.logprobs_of(agent), atol=1e-4, rtol=0)
        # A run of its own goes on from there.
        assert adapters.read_adapter(tmp_path / "final_adapter" / agent, tiny, LORA).keys() == written.keys()


@pytest.fixture
def exported(tiny: Path, alone: Ranks, tmp_path: Path) -> Path:
    training = TwoAdapters(tiny, alone, 2)
    training.train_agent("generator", 2)
    export(training.policy, training.engine, alone, tmp_path / "final_model", 1 << 12)
    return tmp_path / "final_adapter" / "generator"


def test_adapters_start_from_others_or_from_new(tiny: Path, alone: Ranks, exported: Path) -> None:
    training = TwoAdapters(tiny, alone, 2, {"generator": str(exported), "optimizer": "new"})
    assert same(training.factors_of("generator"), load_file(exported / "adapter_model.safetensors"))
    torch.testing.assert_close(training.logprobs_of("optimizer"), plain_logprobs(load_policy(tiny)), atol=1e-5, rtol=0)
    one, two = (TwoAdapters(tiny, alone, 2).factors_of(agent) for agent in AGENTS)
    assert not same(one, two), "two new adapters have the same first factor"


def with_config(adapter: Path, **changes: object) -> None:
    file = adapter / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (lambda path: with_config(path, r=8), AdapterError, r"has rank 8 and alpha 8.* \[policy.lora\] has 4 and 8"),
        (lambda path: (path / "warpsmith_adapter.json").unlink(), AdapterError, "is not an adapter with a"),
        (lambda path: (path / "adapter_model.safetensors").write_bytes(b"x"), AdapterError, "cannot be read"),
        (
            lambda path: (path / "warpsmith_adapter.json").write_text('{"base": "there", "base_fingerprint": "0"}'),
            BaseMismatchError, "was not trained on the weights of",
        ),
    ],
)  # fmt: skip
def test_an_adapter_that_does_not_fit_is_refused_before_anything_is_attached(
    tiny: Path, exported: Path, spoil, error, message: str
) -> None:
    spoil(exported)
    config = PolicyConfig(path=tiny, lora=LORA, adapters={"generator": str(exported), "optimizer": "new"})
    with pytest.raises(error, match=message):
        list(adapter_layers(config, LORA))
    policy = load_policy(tiny)
    with pytest.raises(error, match=message):
        adapters.attach_named(policy, LORA, config.adapters)
    assert not any("lora" in name for name, _ in policy.model.named_parameters())


def test_an_adapter_of_another_base_is_refused(tiny: Path, exported: Path, tmp_path: Path) -> None:
    other = build_tiny(
        tmp_path / "other", ["abc"] * 8, vocab_size=300, layers=2, hidden=64, heads=2, kv_heads=1, seed=5
    )
    with pytest.raises(BaseMismatchError, match=f"was not trained on the weights of {other}"):
        adapters.read_adapter(exported, other, LORA)


def test_an_adapter_of_other_layers_is_refused(tiny: Path, exported: Path) -> None:
    narrow = LoraSettings(rank=4, alpha=8.0, target_modules=("q_proj",))
    with pytest.raises(AdapterError, match="adapts other layers"):
        adapters.attach_named(load_policy(tiny), narrow, {"generator": str(exported), "optimizer": "new"})
