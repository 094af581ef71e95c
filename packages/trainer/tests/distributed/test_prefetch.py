"""ZeRO stage 3 fetches parameters ahead of a pass; what it fetched is not left over when weights are gathered."""

import numpy as np
import pytest
import torch

from warpsmith.policy.loading import load_policy
from warpsmith.trainer.config.sections import OptimizerSection, ZeroSection
from warpsmith.trainer.distributed import zero_engine
from warpsmith.trainer.distributed.deepspeed_config import deepspeed_config
from warpsmith.trainer.distributed.rows import Row, pad_rows
from warpsmith.trainer.weights.probe import trainer_logprobs

IDS = [5, 9, 17, 33, 20, 41, 8, 12]


@pytest.fixture
def engine(tiny, alone, monkeypatch):
    """An engine that releases each parameter after its use, as it does with a model too large to keep."""

    def small(*given):
        config = deepspeed_config(*given)
        config["zero_optimization"] |= {
            "stage3_param_persistence_threshold": 0,
            "stage3_max_reuse_distance": 0,
            "stage3_prefetch_bucket_size": 20_000,
            "stage3_max_live_parameters": 100_000,
        }
        return config

    monkeypatch.setattr(zero_engine, "deepspeed_config", small)
    model = load_policy(tiny, "float32").model
    zero = ZeroSection(stage=3, micro_batch_tokens=64)
    return zero_engine.ZeroEngine(model, zero=zero, optimizer=OptimizerSection(lr=1e-3), ranks=alone, dtype="float32")


def train(engine, alone):
    """Make an update; from the second one on, DeepSpeed knows the order of forward and backward, and fetches ahead."""
    rows = pad_rows([Row(np.array(IDS), np.ones(len(IDS), np.int64))], alone.device)
    engine.train()
    for last in (False, False, True):
        logprobs_BT, _ = engine.logprobs(rows, 1.0)
        engine.accumulate(-logprobs_BT.mean(), last=last)
    engine.step(1e-3)


def test_weights_are_gathered_right_after_a_forward_pass_without_a_backward_one(engine, alone):
    for _ in range(2):
        train(engine, alone)
        expected = trainer_logprobs(engine, alone, IDS)
        weights = {name: value.clone() for name, value in engine.weights(100_000)}
        assert all(torch.isfinite(value).all() and value.numel() for value in weights.values())
        assert trainer_logprobs(engine, alone, IDS) == expected
        again = dict(engine.weights(100_000))
        assert all(torch.equal(again[name], value) for name, value in weights.items())


def test_training_goes_on_after_a_gather(engine, alone):
    before = []
    for _ in range(3):
        train(engine, alone)
        before.append(sum(trainer_logprobs(engine, alone, IDS)))
        dict(engine.weights(100_000))
    assert before[0] < before[1] < before[2]
