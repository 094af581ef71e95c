"""The gradient of a batch is one thing, however the batch is cut and however the state is spread."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import gradient_worker
import pytest
import torch

from warpsmith.trainer.launch.port import free_port


def assert_same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], case: str) -> None:
    assert found.keys() == expected.keys()
    scale = max(value.abs().max().item() for value in expected.values())
    assert scale > 1e-3
    for name, value in expected.items():
        gap = (found[name].reshape(value.shape) - value).abs().max().item()
        assert gap <= 1e-6 * scale + 1e-7, f"{case}: {name} differs by {gap}, largest gradient {scale}"


def assert_same_ratios(found: dict[str, float], expected: dict[str, float]) -> None:
    """The ratio of every turn that counts is known on rank 0, no matter which rank trained on it."""
    names = [f"ratio_mean/{row}" for row in range(6)]
    assert [name for name in found if name.startswith("ratio_mean/")] == names
    assert [found[name] for name in names] == pytest.approx([expected[name] for name in names], rel=1e-4)
    by_tokens = sum(expected[name] * tokens for name, tokens in zip(names, (6, 8, 9, 18, 7, 5), strict=True)) / 53
    assert expected["ratio_mean"] == pytest.approx(by_tokens, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("preset", "stage"),
    [
        *(("dapo", stage) for stage in (0, 1, 2)),
        ("ppo", 3),
        # Stage 3 spreads everything that these do, the value head too, which the others have beside one rank's.
        *(pytest.param(*case, marks=pytest.mark.long) for case in (("dapo", 3), ("ppo", 0), ("ppo", 1), ("ppo", 2))),
    ],
)
def test_micro_batches_packing_and_stages_do_not_change_the_gradient(
    alone, tiny: Path, stage: int, preset: str
) -> None:
    gradient = gradient_worker.gradient
    expected, figures = gradient(tiny, alone, 0, 10_000, preset=preset)
    assert ("value_head.weight" in expected) == (preset == "ppo")
    for budget, packing in itertools.product((16, 60, 10_000), (False, True)):
        found, other = gradient(tiny, alone, stage, budget, packing=packing, preset=preset)
        assert_same(found, expected, f"stage {stage}, budget {budget}, packing {packing}")
        assert other["loss"] == pytest.approx(figures["loss"], rel=1e-5, abs=1e-6)
        assert other["grad_norm"] == pytest.approx(figures["grad_norm"], rel=1e-5)
        assert other["entropy"] == pytest.approx(figures["entropy"], rel=1e-5)
        assert other.get("value_loss", 0.0) == pytest.approx(figures.get("value_loss", 0.0), rel=1e-5)
        assert_same_ratios(other, figures)


@pytest.mark.slow
def test_the_gradient_is_that_of_a_plain_loss(alone, tiny: Path) -> None:
    """Against autograd over unbatched rows, written out once more from the DAPO equation."""
    from warpsmith.policy.loading import load_policy
    from warpsmith.policy.logprobs import token_logprobs

    turns = gradient_worker.turns()
    model = load_policy(tiny, "float32").model
    used = [i for i in range(7) if turns.counted[i]]
    tokens = sum(int(turns.lengths[i]) for i in used)
    for i in used:
        row = turns.rows[i]
        ids, mask = torch.from_numpy(row.ids)[None], torch.from_numpy(row.mask)[None]
        logprobs, _ = token_logprobs(model, ids, torch.ones_like(ids), 0.8)
        ratio = (logprobs - torch.from_numpy(turns.sampler[i])[None]).exp()
        advantage = float(turns.advantage[i])
        surrogate = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.28) * advantage)
        (-(surrogate * mask).sum() / tokens).backward()
    expected = {name: p.grad for name, p in model.named_parameters()}
    found, _ = gradient_worker.gradient(tiny, alone, 2, 60, kl=0.0)
    assert_same(found, expected, "plain")


PAIRS = (
    *("0:40:padded:dapo", "1:40:packed:ppo", "2:40:packed:dapo", "3:40:packed:ppo"),
    *("0:10000:packed:ppo", "1:10000:padded:dapo", "2:10000:packed:ppo", "3:10000:packed:dapo", "3:10000:padded:dapo"),
)
"""Every stage with both budgets, both presets and, except for one, both layouts."""
ALL = tuple(
    ":".join(case)
    for case in [
        *itertools.product("0123", ("40", "10000"), ("padded", "packed"), ("dapo",)),
        *itertools.product("0123", ("40", "10000"), ("packed",), ("ppo",)),
    ]
)


@pytest.mark.slow
@pytest.mark.parametrize("cases", [PAIRS, pytest.param(ALL, marks=pytest.mark.long)], ids=["pairs", "all"])
def test_two_ranks_make_the_gradient_of_one(alone, tiny: Path, tmp_path: Path, cases: tuple[str, ...]) -> None:
    """A budget of 10,000 gives one micro-batch, so that one rank has no turn at all."""
    out = tmp_path / "gradients.pt"
    port = str(free_port())
    ranks = [
        subprocess.Popen(
            [sys.executable, gradient_worker.__file__, str(tiny), str(out), *cases],
            env={
                **os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2",
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "DS_ACCELERATOR": "cpu",
            },
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        assert [rank.wait(280) for rank in ranks] == [0, 0]
    finally:
        for rank in ranks:
            rank.kill()
    whole = {preset: gradient_worker.gradient(tiny, alone, 0, 10_000, preset=preset) for preset in ("dapo", "ppo")}
    for case, (found, other) in torch.load(out).items():
        expected, figures = whole[case.split(":")[-1]]
        assert_same(found, expected, f"two ranks, {case}")
        assert_same_ratios(other, figures)
        assert other["loss"] == pytest.approx(figures["loss"], rel=1e-5, abs=1e-6)
