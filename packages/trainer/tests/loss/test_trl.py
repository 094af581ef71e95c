"""The losses that TRL has as well are TRL's: its own code, given our log-probabilities. Skipped without TRL.

TRL's trainer is not built (it wants a model, a data set and a reward): its `_compute_loss` is called on an object that
holds what that method reads. It was written against TRL 1.16.
"""

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from objective_rows import LENGTH, Row, loss_of, made_rows, padded, turns_of

from warpsmith.trainer.advantage import assign
from warpsmith.trainer.config.grpo import AlgorithmSection

pytest.importorskip("trl", reason="TRL is not installed")


def trl_loss(rows: list[Row], algorithm: AlgorithmSection, **settings: Any) -> tuple[float, np.ndarray]:
    """Return TRL's loss of the rows under our advantages, and its gradient by each token."""
    from trl import GRPOTrainer

    lengths = torch.tensor([len(row["new"]) for row in rows])
    new = padded(rows, "new").requires_grad_()
    mask = (torch.arange(new.shape[1])[None] < lengths[:, None]).double()
    credit = assign(turns_of(rows), algorithm.estimator, algorithm.normalisation)
    inputs = {
        "prompt_ids": torch.zeros(len(rows), 1, dtype=torch.long), "prompt_mask": torch.ones(len(rows), 1),
        "completion_ids": torch.zeros_like(mask, dtype=torch.long), "completion_mask": mask,
        "advantages": torch.from_numpy(credit.advantage), "old_per_token_logps": padded(rows, "old"),
        "ref_per_token_logps": padded(rows, "reference"), "num_items_in_batch": mask.sum(),
    }  # fmt: skip
    entropy = torch.zeros_like(mask)
    options = {"delta": None, "use_bias_correction_kl": False, "steps_per_generation": 1} | settings.pop("args", {})
    alone = SimpleNamespace(num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x)
    trainer = SimpleNamespace(
        **{
            "_get_per_token_logps_and_entropies": lambda *_, **__: (new, entropy, None), "aux_loss_enabled": False,
            "top_entropy_quantile": 1.0, "off_policy_mask_threshold": None, "importance_sampling_level": "token",
            "beta": 0.0, "loss_type": "grpo", "epsilon_low": 0.2, "epsilon_high": 0.2, "use_vllm": False,
            "vllm_importance_sampling_correction": False, "model": SimpleNamespace(training=True),
            "current_gradient_accumulation_steps": 1, "max_completion_length": LENGTH, "accelerator": alone,
            "_entropy_bonus_enabled": False, "_metrics": {"train": defaultdict(list)},
            "args": SimpleNamespace(**options),
        }
        | settings
    )  # fmt: skip
    loss = GRPOTrainer._compute_loss(trainer, None, inputs)
    loss.backward()
    assert new.grad is not None
    return loss.item(), np.concatenate([new.grad[i, :n].numpy() for i, n in enumerate(lengths)])


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"type": "grpo"}, {}),
        ({"type": "grpo", "kl": {"coefficient": 0.3}}, {"beta": 0.3}),
        ({"type": "grpo", "clip": {"dual": 1.5}}, {"args": {"delta": 1.5}}),
        ({"type": "grpo", "aggregation": "token_mean"}, {"loss_type": "bnpo"}),
        ({"type": "dr_grpo", "aggregation": {"length": LENGTH}}, {"loss_type": "dr_grpo"}),
        ({"type": "dapo"}, {"loss_type": "dapo", "epsilon_high": 0.28}),
        (
            {"type": "gspo"},
            {"importance_sampling_level": "sequence", "epsilon_low": 3e-4, "epsilon_high": 4e-4},
        ),
        # TRL's bound is of the weight itself.
        ({"type": "cispo"}, {"loss_type": "cispo", "epsilon_high": 3.0}),
    ],
    ids=["grpo", "grpo with kl", "dual clip", "bnpo", "dr_grpo", "dapo", "gspo", "cispo"],
)
@pytest.mark.parametrize("wide", [0.3, 1.0])
def test_the_loss_and_its_gradient_are_trls(ours: dict[str, Any], theirs: dict[str, Any], wide: float) -> None:
    rows = made_rows(11, wide=wide)
    algorithm = AlgorithmSection(**ours)
    loss, gradient, _ = loss_of(rows, algorithm)
    expected, slope = trl_loss(rows, algorithm, **theirs)
    assert loss == pytest.approx(expected, rel=1e-9)
    assert np.abs(slope).max() > 0
    assert gradient == pytest.approx(slope, abs=1e-12)
