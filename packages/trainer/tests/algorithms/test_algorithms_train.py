"""Every algorithm trains: a real DeepSpeed, a tiny model, turns of two groups; the rewarded answers become likelier."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from warpsmith.policy.loading import load_policy
from warpsmith.policy.logprobs import token_figures, token_logprobs
from warpsmith.trainer.advantage.crediting import Crediting
from warpsmith.trainer.algorithms import ALGORITHMS
from warpsmith.trainer.config.grpo import AlgorithmSection, GrpoRunSection, TrainerConfig
from warpsmith.trainer.config.sections import OptimizerSection, ZeroSection
from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.distributed.reference_policy import FrozenModel
from warpsmith.trainer.distributed.value_head import NAME, attach
from warpsmith.trainer.distributed.zero_engine import ZeroEngine
from warpsmith.trainer.rollouts.batch import TrainingTurns, training_turns
from warpsmith.trainer.runs.policy_update import PolicyUpdate, Updated

Table = Callable[[list[dict[str, Any]]], pa.Table]


class Trained:
    """A tiny policy in training under one `[algorithm]`, and a batch of two groups with good and bad answers."""

    def __init__(self, tiny: Path, ranks: Ranks, table_of: Table, *, stage: int = 1, **algorithm: Any) -> None:
        constant = ALGORITHMS.get(algorithm.get("type", "grpo")).defaults["aggregation"] == "constant"
        length = {"aggregation": {"length": 8}} if constant else {}
        self.config = TrainerConfig(
            run=GrpoRunSection(dir=Path("unused"), steps=8),
            policy={"path": tiny, "dtype": "float32"},
            algorithm=AlgorithmSection(**({"prompts_per_step": 2} | length | algorithm)),
            optimizer=OptimizerSection(lr=2e-3),
            zero=ZeroSection(stage=stage, micro_batch_tokens=256),
        )
        model = load_policy(tiny, "float32").model
        chosen = self.config.algorithm
        settings = chosen.value_head
        head = attach(model, 64, detached=settings.value_trains == "head") if settings else None
        self.engine = ZeroEngine(
            model, zero=self.config.zero, optimizer=self.config.optimizer, ranks=ranks, dtype="float32",
            value_head=head, value_lr=settings.value_lr if settings else None,
        )  # fmt: skip
        reference = None
        if chosen.kl is not None:
            reference = FrozenModel(
                load_policy(tiny, "float32").model, zero=self.config.zero, ranks=ranks, dtype="float32"
            )
        self.crediting = Crediting(self.config, self.engine, reference, ranks)
        self.update = PolicyUpdate(self.engine, reference, ranks, self.config)
        self.table = table_of(answers(model))

    def step(self, done: int) -> tuple[TrainingTurns, Updated, dict[str, float]]:
        credit, figures = self.crediting.credit(self.table)
        turns = training_turns(self.table, credit, updates=self.config.algorithm.updates_per_step)
        return turns, self.update.run(turns, done), figures

    def margin(self) -> float:
        """How much likelier a token of the answers with the reward is than one of the others."""
        good, bad = [], []
        for row in self.table.to_pylist():
            logprobs = scored(self.engine.module, row["prompt_ids"], row["completion_ids"])
            (good if row["reward"] > 0.2 else bad).append(np.mean(logprobs))
        return float(np.mean(good) - np.mean(bad))


def scored(model: torch.nn.Module, prompt: list[int], completion: list[int]) -> list[float]:
    ids = torch.tensor([prompt + completion])
    with torch.no_grad():
        logprobs, _ = token_logprobs(model, ids, torch.ones_like(ids), 1.0)
    return logprobs[0, len(prompt) :].tolist()


def answers(model: torch.nn.Module) -> list[dict[str, Any]]:
    """Two groups of two trajectories with two turns, in each a good and a bad one, with the model's log-probs."""
    rng = np.random.default_rng(0)
    rows = []
    for trajectory in range(4):
        scores = (0.3, 0.5) if trajectory % 2 else (0.0, 0.1)
        for turn, score in enumerate(scores):
            prompt, completion = rng.integers(3, 250, 6).tolist(), rng.integers(3, 250, 4 + turn).tolist()
            rows.append(
                {
                    "group": f"g{trajectory // 2}", "trajectory": f"g{trajectory // 2}/{trajectory}", "turn": turn,
                    "num_turns": 2, "reward": score, "return": score + (0.4 * scores[1] if turn == 0 else 0.0),
                    "prompt_ids": prompt, "completion_ids": completion, "weight_versions": [0] * len(completion),
                    "logprobs": scored(model, prompt, completion), "sampling": {"temperature": 1.0, "max_tokens": 16},
                }
            )  # fmt: skip
    return rows


@pytest.mark.parametrize("name", ALGORITHMS.names())
def test_a_few_steps_make_rewarded_answers_likelier(alone: Ranks, tiny: Path, turns_table: Table, name: str) -> None:
    trained = Trained(tiny, alone, turns_table, type=name)
    before, made = trained.margin(), 0
    for done in range(3):
        _, updated, _ = trained.step(done)
        made += updated.made
        assert all(np.isfinite(value) for value in updated.figures.values())
    assert made == 3
    assert trained.margin() > before + 0.01


@pytest.mark.parametrize(
    "algorithm",
    [
        {"kl": {"type": "k1", "coefficient": 0.1, "add_to": "reward"}},
        {"type": "dapo", "overlong": {"share": 1.0}},
        {"clip": {"dual": 3.0}, "epochs_per_step": 2, "updates_per_step": 2},
        {
            "type": "gspo", "old_logprobs": "recompute",
            "correction": {"type": "masked", "low": 0.99, "high": 1.01, "veto": 1e-4},
        },
        {"type": "ppo", "estimator": {"value_clip": 0.2, "value_trains": "head"}, "epochs_per_step": 2},
    ],
    ids=["kl in reward", "overlong", "dual clip", "masked", "ppo epochs"],
)  # fmt: skip
def test_the_choices_go_together(alone: Ranks, tiny: Path, turns_table: Table, algorithm: dict[str, Any]) -> None:
    trained = Trained(tiny, alone, turns_table, **algorithm)
    before, updates = trained.margin(), algorithm.get("epochs_per_step", 1) * algorithm.get("updates_per_step", 1)
    made = 0
    for done in range(3):
        _, updated, _ = trained.step(done)
        made += updated.made
    assert made == 3 * updates
    assert trained.margin() > before


def test_the_learning_rate_ends_where_it_should_although_updates_were_not_made(
    alone: Ranks, tiny: Path, turns_table: Table
) -> None:
    """The first of two groups is flat, so of each step's two updates the second alone is made."""
    trained = Trained(tiny, alone, turns_table, updates_per_step=2)
    trained.update.optimizer = OptimizerSection(lr=2e-3, schedule={"type": "linear", "min_lr_ratio": 0.1})
    rows = trained.table.to_pylist()
    trained.table = turns_table([{**row, "return": 0.3} if row["group"] == "g0" else row for row in rows])
    found = [trained.step(done)[1] for done in (0, 1, 6, 7)]
    assert [updated.made for updated in found] == [1, 1, 1, 1]
    places = [1, 3, 13, 15]
    expected = [2e-3 * (1 - 0.9 * place / 15) for place in places]
    assert [updated.figures["learning_rate"] for updated in found] == pytest.approx(expected)


def test_the_value_head_learns_what_turns_are_worth(alone: Ranks, tiny: Path, turns_table: Table) -> None:
    trained = Trained(
        tiny, alone, turns_table, type="ppo", estimator={"value_lr": 1e-2, "value_coefficient": 1.0, "lam": 1.0}
    )
    turns, first, _ = trained.step(0)
    assert turns.value is not None and turns.target is not None
    # The head says 0 of everything at first; with lambda 1 its target is the return.
    assert turns.value.tolist() == [0.0] * 8
    assert turns.target == pytest.approx(np.array(trained.table["return"].to_pylist()))
    for done in range(1, 8):
        _, last, _ = trained.step(done)
    assert last.figures["value_loss"] < 0.2 * first.figures["value_loss"]
    assert last.figures["value_explained"] > 0.5


def test_a_value_is_that_of_the_prompts_end(alone: Ranks, tiny: Path, turns_table: Table) -> None:
    """The pass before the update, over prompts alone, sees what the update sees beside the completion."""
    trained = Trained(tiny, alone, turns_table, type="ppo", estimator={"value_lr": 1e-2})
    trained.step(0)
    trained.engine.train(False)
    credit, _ = trained.crediting.credit(trained.table)
    assert credit.value is not None
    head = trained.engine.module.get_submodule(NAME)
    for row, value in zip(trained.table.to_pylist(), credit.value, strict=True):
        ids = torch.tensor([row["prompt_ids"] + row["completion_ids"]])
        with torch.no_grad():
            found = token_figures(trained.engine.module, ids, torch.ones_like(ids), value_head=head).value_BT
        assert found is not None
        assert found[0, len(row["prompt_ids"])].item() == pytest.approx(value, abs=1e-6)
    assert np.ptp(credit.value) > 1e-4


@pytest.mark.parametrize(("trains", "moved"), [("policy", True), ("head", False)])
def test_the_value_loss_reaches_the_policy_or_its_head_alone(
    alone: Ranks, tiny: Path, turns_table: Table, trains: str, moved: bool
) -> None:
    """Without a clip the policy's own gradient is 0 here: all advantages are, since every turn is worth the same."""
    trained = Trained(tiny, alone, turns_table, type="ppo", estimator={"value_trains": trains, "lam": 0.0})
    same = pa.array([0.3] * 8)
    names = trained.table.column_names
    for name in ("reward", "return"):
        trained.table = trained.table.set_column(names.index(name), name, same)
    # The head must say something of the hidden states, or nothing flows back through it.
    with torch.no_grad():
        trained.engine.module.get_parameter(f"{NAME}.bias").fill_(0.1)
        trained.engine.module.get_parameter(f"{NAME}.weight").fill_(0.0)
    credit, _ = trained.crediting.credit(trained.table)
    turns = training_turns(trained.table, credit)
    flat = TrainingTurns(**{**vars(turns), "advantage": np.zeros(8)})
    before = {name: value.clone() for name, value in trained.engine.weights(10**9)}
    for done in range(2):
        trained.update.run(flat, done)
    after = dict(trained.engine.weights(10**9))
    assert any(not torch.equal(before[name], after[name]) for name in before) == moved
    assert not torch.equal(trained.engine.module.get_parameter(f"{NAME}.bias"), torch.tensor([0.1]))


def test_dropout_reaches_neither_old_log_probabilities_nor_values(alone: Ranks, tiny: Path, turns_table: Table) -> None:
    """A model with dropout of its own, as some have it in their attention, and an engine that is left in training."""
    trained = Trained(tiny, alone, turns_table, type="ppo", estimator={"value_lr": 1e-2}, old_logprobs="recompute")
    trained.step(0)
    for module in trained.engine.module.modules():
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.5
    credit, _ = trained.crediting.credit(trained.table)
    turns = training_turns(trained.table, credit)
    trained.engine.train()
    old = trained.update.recomputed(turns)
    for row, found in zip(trained.table.to_pylist(), old, strict=True):
        expected = scored(trained.engine.module, row["prompt_ids"], row["completion_ids"])
        assert found[len(row["prompt_ids"]) :] == pytest.approx(expected, abs=1e-5)
    trained.engine.train()
    again, _ = trained.crediting.credit(trained.table)
    assert credit.value is not None and again.value is not None
    assert np.array_equal(credit.value, again.value)
    trained.update.run(turns, 1)
    assert trained.engine.module.training


def test_samplers_and_exports_never_see_the_value_head(alone: Ranks, tiny: Path, turns_table: Table) -> None:
    trained = Trained(tiny, alone, turns_table, type="ppo")
    names = {name for name, _ in trained.engine.weights(10**9)}
    bare = {name for name, _ in load_policy(tiny, "float32").model.named_parameters()}
    assert names == bare


def test_the_divergence_in_the_reward_is_summed_over_a_turns_tokens(
    alone: Ranks, tiny: Path, turns_table: Table
) -> None:
    trained = Trained(tiny, alone, turns_table, kl={"type": "k1", "coefficient": 0.5, "add_to": "reward"})
    rows = trained.table.to_pylist()
    shifted = turns_table([{**row, "logprobs": [value + 0.1 for value in row["logprobs"]]} for row in rows])
    assert trained.crediting.reference is not None
    found = trained.crediting.divergence(trained.crediting.reference, shifted, "k1")
    assert found == pytest.approx([0.1 * len(row["completion_ids"]) for row in rows], abs=1e-4)
    _, figures = trained.crediting.credit(shifted)
    assert figures["kl_penalty_mean"] == pytest.approx(0.5 * 0.1 * 4.5, abs=1e-4)
    assert figures["kl_reference"] == pytest.approx(0.1, abs=1e-4)
