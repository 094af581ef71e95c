"""From records to training rows, and the figures of a batch."""

from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from warpsmith.trainer.advantage import Credit, Normalisation, assign
from warpsmith.trainer.advantage.crediting import Crediting
from warpsmith.trainer.advantage.estimators.turn import TurnReturn
from warpsmith.trainer.advantage.normalization import NoScale
from warpsmith.trainer.config import load_grpo
from warpsmith.trainer.config.grpo import AlgorithmSection, GrpoRunSection, TrainerConfig
from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.errors import CollectionError, DataError
from warpsmith.trainer.rollouts.batch import credit_columns, training_turns
from warpsmith.trainer.rollouts.session import refuse_lost
from warpsmith.trainer.runs.grpo import GrpoRun
from warpsmith.trainer.runs.policy_update import PolicyUpdate
from warpsmith.trainer.telemetry.batch_metrics import batch_figures, columns, credit_figures, staleness, trained_tokens
from warpsmith.trainer.telemetry.console import lines

CORRECT = {"status": "correct", "compiled": True, "correct": True, "speedup": 2.0}
LOST = {"valid": False, "invalid_reason": "evaluation: gone", "reward": None, "return": None, "verdict": None}


def flat_credit(n: int) -> Credit:
    return Credit(np.ones(n), np.ones(n, bool), 1, 0, np.ones(n, np.int64))


def test_rows_carry_the_sampled_tokens_with_the_mask_on_the_completion(turns_table) -> None:
    changes = [
        {},
        {"prompt_ids": [9], "completion_ids": [8, 7, 6], "logprobs": [-1, -2, -3], "weight_versions": [1] * 3},
    ]
    turns = training_turns(turns_table(changes), flat_credit(2))
    assert turns.rows[0].ids.tolist() == [1, 2, 3, 4, 5]
    assert turns.rows[0].mask.tolist() == [0, 0, 0, 1, 1]
    assert turns.sampler[1].tolist() == [0, -1, -2, -3]
    assert turns.lengths.tolist() == [2, 3]


def test_rows_of_a_slice_are_those_of_the_slice(turns_table) -> None:
    table = turns_table([{"prompt_ids": [i]} for i in range(5)]).slice(2, 2)
    assert [row.ids[0] for row in training_turns(table, flat_credit(2)).rows] == [2, 3]


def test_turns_without_tokens_do_not_count(turns_table) -> None:
    empty = {"completion_ids": [], "logprobs": [], "weight_versions": [], **LOST}
    turns = training_turns(turns_table([{}, empty]), flat_credit(2))
    assert turns.counted.tolist() == [True, False]


def test_truncated_completions_can_be_left_out(turns_table) -> None:
    table = turns_table([{}, {"finish_reason": "length"}, {"finish_reason": None}])
    assert training_turns(table, flat_credit(3), mask_truncated=True).counted.tolist() == [True, False, True]
    assert training_turns(table, flat_credit(3)).counted.all()


def crediting(reference: object = None, **algorithm: object) -> Crediting:
    """What judges turns, with no policy: only a value head and a reference policy would need one."""
    config = TrainerConfig(
        run=GrpoRunSection(dir=Path("unused")),
        policy={"path": "unused"},
        algorithm=AlgorithmSection(scale="none", **algorithm),
        rollout={"gamma": 0.5},
    )
    return Crediting(config, engine=None, reference=reference, ranks=None)


def two_trajectories(turns_table):
    """One group: the second turn of the first trajectory ran up to its limit, and each turn has a score of its own."""
    rows = [("0", 0, 0.2, 2), ("0", 1, 1.0, 8), ("1", 0, 0.3, 2), ("1", 1, 0.1, 2)]
    return turns_table(
        [
            {
                "group": "g", "trajectory": f"g/{trajectory}", "turn": turn, "num_turns": 2,
                "reward": score, "return": score,
                "completion_ids": [7] * length, "logprobs": [-1.0] * length, "weight_versions": [1] * length,
                "sampling": {"temperature": 1.0, "max_tokens": 8},
            }
            for trajectory, turn, score, length in rows
        ]
    )  # fmt: skip


def test_an_answer_up_to_its_limit_loses_score_and_so_advantage(turns_table) -> None:
    table = two_trajectories(turns_table)
    credit, figures = crediting(overlong={"share": 0.5, "penalty": 0.6}, estimator="turn").credit(table)
    returns = np.array([0.2 + 0.5 * (1.0 - 0.6), 1.0 - 0.6, 0.3 + 0.5 * 0.1, 0.1])
    centres = np.array([returns[[0, 2]].mean(), returns[[1, 3]].mean()] * 2)
    assert credit.advantage == pytest.approx(returns - centres)
    assert figures == {"overlong_penalty_mean": pytest.approx(0.6 / 4)}


def test_what_diverges_from_the_reference_policy_loses_score_and_so_advantage(turns_table, monkeypatch) -> None:
    table, divergence = two_trajectories(turns_table), np.array([0.0, 2.0, 1.0, 0.0])
    monkeypatch.setattr("warpsmith.trainer.advantage.crediting.reference_divergence", lambda *_, **__: divergence)
    credit, figures = crediting(object(), kl={"coefficient": 0.1, "add_to": "reward"}, estimator="turn").credit(table)
    returns = np.array([0.2 + 0.5 * (1.0 - 0.2), 1.0 - 0.2, 0.3 - 0.1 + 0.5 * 0.1, 0.1])
    centres = np.array([returns[[0, 2]].mean(), returns[[1, 3]].mean()] * 2)
    assert credit.advantage == pytest.approx(returns - centres)
    assert figures == {"kl_penalty_mean": pytest.approx(0.3 / 4), "kl_reference": pytest.approx(3 / 14)}


@pytest.mark.parametrize("masked", [False, True])
def test_a_run_leaves_truncated_completions_out_where_it_is_configured_to(turns_table, masked) -> None:
    table, given = turns_table([{}, {"finish_reason": "length"}]), []
    config = TrainerConfig(
        run=GrpoRunSection(dir=Path("unused")), policy={"path": "unused"}, algorithm={"mask_truncated": masked}
    )
    update = SimpleNamespace(run=lambda turns, step: given.append(turns) or SimpleNamespace(made=0))
    GrpoRun.train_on(SimpleNamespace(config=config, update=update), table, flat_credit(2), SimpleNamespace(step=0))
    assert given[0].counted.tolist() == [True, not masked]


def test_updates_are_cut_along_whole_groups(turns_table) -> None:
    table = turns_table([{"group": f"g{i // 3}", "trajectory": f"g{i // 3}/{i}"} for i in range(15)])
    turns = training_turns(table, flat_credit(15), updates=2)
    assert [turns.update[i] for i in range(0, 15, 3)] == [0, 0, 0, 1, 1]
    for group in range(5):
        assert len(set(turns.update[3 * group : 3 * group + 3])) == 1


def test_mixed_temperatures_are_refused(turns_table) -> None:
    hot = {"sampling": {"temperature": 2.0, "max_tokens": 8}}
    with pytest.raises(DataError, match="2 temperatures"):
        training_turns(turns_table([{}, hot]), flat_credit(2))


def test_invalid_turns_have_no_credit(turns_table) -> None:
    table = turns_table(
        [
            {"trajectory": "g0/0", "reward": 0.0, "return": 0.0},
            {"trajectory": "g0/1", "reward": 1.0, "return": 1.0},
            {"trajectory": "g0/2", **LOST},
        ]
    )
    credit = assign(credit_columns(table), TurnReturn(), Normalisation(scale=NoScale()))
    assert credit.advantage.tolist() == [-0.5, 0.5, 0.0]
    assert credit.counted.tolist() == [True, True, False]


def test_figures_by_hand(turns_table) -> None:
    table = turns_table(
        [
            {"trajectory": "a", "num_turns": 2, "reward": 0.1, "return": 0.22},
            {"trajectory": "a", "turn": 1, "num_turns": 2, "reward": 0.3, "return": 0.3, "verdict": CORRECT},
            {"trajectory": "b", "reward": 0.0, "return": 0.0, "finish_reason": "length"},
            {"trajectory": "c", **LOST},
        ]
    )
    found = batch_figures(table)
    assert found["turns"] == 4
    assert found["invalid_turns"] == 1
    assert found["trajectories"] == 3
    assert found["reward_mean"] == pytest.approx(0.4 / 3)
    assert found["correct_rate"] == pytest.approx(1 / 3)
    assert found["solved_rate"] == pytest.approx(1 / 2)
    assert found["speedup_mean"] == 2.0
    assert found["invalid_rate"] == 0.25
    assert found["turn_1/reward_mean"] == pytest.approx(0.05)
    # Trajectories count by their first turn, turns each by itself; the lost one is in neither.
    assert found["aggregated_return_mean"] == found["turn_1/return_mean"] == pytest.approx(0.22 / 2)
    assert found["turn_return_mean"] == pytest.approx(0.52 / 3)
    assert "return_mean" not in found
    assert found["turn_2/correct_rate"] == 1.0
    assert found["truncated_rate"] == 0.25
    assert found["tokens"] == 8


def test_each_agent_has_figures_of_its_own(turns_table) -> None:
    table = turns_table(
        [
            {"trajectory": "a", "agent": "generator", "reward": 0.1},
            {"trajectory": "a", "turn": 1, "num_turns": 3, "agent": "generator", "reward": 0.3, "verdict": CORRECT},
            {"trajectory": "b", "agent": "generator", "reward": 0.1},
            {
                "trajectory": "a", "turn": 2, "num_turns": 3, "agent": "optimizer", "reward": 1.0, "verdict": CORRECT,
                "speedup_over_start": 2.0,
            },
            {"trajectory": "c", "agent": "optimizer", "reward": -1.0},
        ]
    )  # fmt: skip
    found = batch_figures(table)
    own = {name.removeprefix("agent_"): value for name, value in found.items() if name.startswith("agent_")}
    assert own == pytest.approx(
        {
            "generator/turns": 3, "generator/solved_rate": 0.5, "generator/correct_rate": 1 / 3,
            "generator/reward_mean": 0.5 / 3, "generator/return_mean": 0.1,
            "optimizer/turns": 2, "optimizer/solved_rate": 0.5, "optimizer/correct_rate": 0.5,
            "optimizer/reward_mean": 0.0, "optimizer/return_mean": 0.1,
            "optimizer/speedup_over_start_mean": 2.0, "optimizer/improved_rate": 0.5,
        }
    )  # fmt: skip
    shown = lines(1, defaultdict(float, found))
    assert "generator: turns 3, solved 0.50, reward 0.167; optimizer: turns 2, solved 0.50" in shown
    assert "2.00x over the start, improved 0.50" in shown


def test_an_optimizer_that_is_not_timed_has_the_ratio_of_bytes(turns_table) -> None:
    figures = [{"name": "bytes_moved", "value": 512.0}, {"name": "start_bytes_moved", "value": 1024.0}]
    table = turns_table(
        [
            {"trajectory": "a", "agent": "optimizer", "verdict": CORRECT | {"figures": figures}},
            {"trajectory": "b", "agent": "optimizer"},
        ]
    )
    found = batch_figures(table)
    assert (found["agent_optimizer/bytes_over_start_mean"], found["agent_optimizer/improved_rate"]) == (2.0, 0.5)
    assert "agent_optimizer/speedup_over_start_mean" not in found
    assert "the start moves 2.00x its bytes, improved 0.50" in lines(1, defaultdict(float, found))
    assert not any(name.startswith("agent_") for name in batch_figures(turns_table([{}])))


def test_turns_of_agents_get_their_credit_from_the_table(turns_table) -> None:
    """An optimizer's first turn is compared with another's, wherever they are in their trajectories."""
    rows = [("0", 0, "generator", 0.3), ("0", 1, "optimizer", 1.0), ("1", 0, "generator", 0.1)]
    rows += [("1", 1, "generator", 0.3), ("1", 2, "optimizer", 0.0)]
    table = turns_table(
        [
            {"group": "g", "trajectory": name, "turn": turn, "num_turns": 3, "agent": agent, "reward": s, "return": s}
            for name, turn, agent, s in rows
        ]
    )
    credit = assign(credit_columns(table), TurnReturn(), Normalisation(scale=NoScale()))
    assert credit.advantage == pytest.approx([0.1, 0.5, -0.1, 0.0, -0.5])


def test_turns_that_were_lost_before_a_token_have_no_length(turns_table) -> None:
    lost = {**LOST, "completion_ids": [], "logprobs": [], "weight_versions": [], "finish_reason": None}
    found = batch_figures(turns_table([{"finish_reason": "length"}, {}, LOST, lost, {**lost, "trajectory": "b"}]))
    assert found["completion_length_mean"] == 2.0
    assert found["truncated_rate"] == pytest.approx(1 / 3)
    assert (found["turns"], found["invalid_rate"], found["turn_1/completion_length_mean"]) == (5, 0.6, 2.0)
    alone = batch_figures(turns_table([lost]))
    assert not {"completion_length_mean", "truncated_rate"} & alone.keys()


def test_a_batch_of_lost_turns_has_figures(turns_table) -> None:
    found = batch_figures(turns_table([LOST, {**LOST, "trajectory": "b"}]))
    assert found["invalid_turns"] == 2
    assert "reward_mean" not in found


def test_staleness_counts_versions(turns_table) -> None:
    table = turns_table([{"weight_versions": [3, 4]}, {"weight_versions": [4, 5]}])
    assert staleness(table, 5) == {"staleness_mean": 1.0, "staleness_max": 2.0}


def test_only_turns_that_were_passed_through_the_policy_count_in_the_speed(turns_table) -> None:
    turns = training_turns(turns_table([{}, {"prompt_ids": [1] * 900}, {}]), flat_credit(3))
    assert trained_tokens(turns, {"ratio_mean": np.array([1.0, np.nan, 1.1])}) == 10


def alone_update(tmp_path: Path, *overrides: str, reference: object = None) -> PolicyUpdate:
    """The updates of one process whose policy is asked for nothing."""
    path = tmp_path / "grpo.toml"
    path.write_text('[run]\ndir = "x"\n[policy]\npath = "y"\n')
    ranks = Ranks(0, 1, torch.device("cpu"), None)
    engine = SimpleNamespace(train=lambda: None, step=lambda *_: 0.5, agents=(), act_as=lambda _: None)
    return PolicyUpdate(engine, reference, ranks, load_grpo(path, overrides))  # type: ignore[arg-type]


def test_a_step_that_trains_nothing_has_no_figures_of_an_update(turns_table, tmp_path: Path) -> None:
    table = turns_table([{"trajectory": f"g0/{i}"} for i in range(4)])
    turns = training_turns(table, assign(credit_columns(table), TurnReturn(), Normalisation()))
    done = alone_update(tmp_path).run(turns, 0)
    assert (done.made, done.figures) == (0, {"updates": 0.0})
    assert trained_tokens(turns, done.rows) == 0
    assert columns(done.figures) == {}


def test_a_divergence_is_reported_only_where_there_is_a_reference_policy(
    turns_table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_of_each(self, turns, plan, old, sums, progress) -> None:  # type: ignore[no-untyped-def]
        sums.batch += 1.0

    monkeypatch.setattr(PolicyUpdate, "_accumulate", one_of_each)
    update = alone_update(tmp_path)
    turns = training_turns(turns_table([{}]), flat_credit(1))
    plain = update.run(turns, 0).figures
    assert (plain["loss"], plain["grad_norm"], plain["clip_fraction"]) == (1.0, 0.5, 1.0)
    assert "kl_reference" not in plain
    assert columns(plain) == {"clipped_fraction": 1.0}
    beside = alone_update(tmp_path, "algorithm.kl.coefficient=0.1", reference=SimpleNamespace())
    assert columns(beside.run(turns, 0).figures) == {"kl": 1.0, "clipped_fraction": 1.0}


def test_credit_figures_count_flat_groups() -> None:
    found = credit_figures(Credit(np.array([0.5, -0.5, 0.0]), np.array([True, True, False]), 4, 3, np.array([2, 2, 0])))
    assert found == {
        "groups": 4, "flat_groups": 3, "flat_group_rate": 0.75,
        "advantage_abs_mean": 0.5, "advantage_min": -0.5, "advantage_max": 0.5,
    }  # fmt: skip


def test_a_batch_without_a_valid_turn_is_refused_with_the_commonest_reason(turns_table) -> None:
    lost, bad = LOST, {**LOST, "invalid_reason": "problem: no Model"}
    for fine in ([{}, lost], [{}, bad]):
        refuse_lost(turns_table(fine), "step-1")
    message = r"None of the 3 turns of step-1 .* 2 were lost to: evaluation: gone Fix that, then continue with --resume"
    with pytest.raises(CollectionError, match=message):
        refuse_lost(turns_table([lost, bad, lost]), "step-1")
    earlier = {**bad, "invalid_reason": "turn 2 of the trajectory was lost: problem: no Model"}
    with pytest.raises(CollectionError, match=r"2 were lost to: problem: no Model Fix or remove these problems"):
        refuse_lost(turns_table([lost, bad, earlier]), "step-1")
