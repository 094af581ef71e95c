"""A real sampler and the trainer give the same tokens the same log-probabilities, turn by turn and token by token."""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import nn

from warpsmith.policy.loading import load_policy
from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.samplers import Completion, Sampling, WeightPayload
from warpsmith.rollout.samplers.vllm.in_process import VllmSampler
from warpsmith.trainer.advantage import assign
from warpsmith.trainer.advantage.estimators.turn import TurnReturn
from warpsmith.trainer.advantage.normalization import Normalisation
from warpsmith.trainer.config.grpo import AlgorithmSection, GrpoRunSection, TrainerConfig
from warpsmith.trainer.config.sections import OptimizerSection, ZeroSection
from warpsmith.trainer.distributed.micro_batches import micro_batches
from warpsmith.trainer.distributed.rows import pad_rows
from warpsmith.trainer.distributed.zero_engine import ZeroEngine
from warpsmith.trainer.rollouts.batch import TrainingTurns, credit_columns, training_turns
from warpsmith.trainer.runs.policy_update import PolicyUpdate

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

# Prompts below, at and above a block of the prefix cache, and completions from one token on.
PROMPTS = (1, 2, 7, 31, 64, 127, 128, 129, 200, 257, 300, 383)
COMPLETIONS = (1, 2, 5, 17, 40, 64, 90, 127)
# Seen: 1e-6, and 4e-6 with sharp distributions. 1e-3 is what is promised.
GAP = 1e-4


@pytest.fixture(scope="module")
def sampler(tiny: Path) -> Iterator[VllmSampler]:
    engine = VllmSampler(tiny, SamplerConfig(dtype="float32", max_model_len=512, max_sequences=16))
    yield engine
    with pytest.MonkeyPatch.context() as patch:
        # vLLM ends this process's group with itself; the tests that follow train in that group.
        patch.setattr(torch.distributed, "destroy_process_group", lambda group=None: None)
        asyncio.run(engine.close())


def peaked(model: nn.Module, factor: float) -> nn.Module:
    """Return the model with sharper distributions: an untrained one is close to uniform, and agrees easily."""
    with torch.no_grad():
        model.get_parameter("model.norm.weight").mul_(factor)
    return model


def sampled(sampler: VllmSampler, model: nn.Module, temperature: float) -> list[tuple[list[int], Completion]]:
    """Return (prompt, completion) of turns of every pair of lengths, sampled side by side with the model's weights."""
    rng = np.random.default_rng(0)
    pairs = [(rng.integers(3, 590, p).tolist(), c) for p in PROMPTS for c in COMPLETIONS]
    payload = WeightPayload.from_state_dict(sampler.weight_version + 1, dict(model.named_parameters()))

    async def go() -> list[Completion]:
        await sampler.update_weights(payload)
        samplings = [
            Sampling(temperature=temperature, top_p=1.0, max_tokens=c, seed=i) for i, (_, c) in enumerate(pairs)
        ]
        requests = [sampler.generate(prompt, s) for (prompt, _), s in zip(pairs, samplings, strict=True)]
        return list(await asyncio.gather(*requests))

    return [(prompt, completion) for (prompt, _), completion in zip(pairs, asyncio.run(go()), strict=True)]


def as_turns(
    pairs: list[tuple[list[int], Completion]], temperature: float, table_of: Callable[[list[dict[str, Any]]], pa.Table]
) -> TrainingTurns:
    """Return the turns as the trainer has them after records and credit: three to a trajectory."""
    table = table_of(
        [
            {
                "group": f"g{i // 6}", "trajectory": f"g{i // 6}/{i // 3}", "turn": i % 3, "num_turns": 3,
                "reward": 0.1 * (i % 4), "return": 0.1 * (i % 4), "prompt_ids": prompt,
                "completion_ids": completion.ids,
                "logprobs": completion.logprobs, "weight_versions": completion.weight_versions,
                "finish_reason": completion.finish_reason,
                "sampling": {"temperature": temperature, "top_p": 1.0, "max_tokens": 128},
            }
            for i, (prompt, completion) in enumerate(pairs)
        ]
    )  # fmt: skip
    return training_turns(table, assign(credit_columns(table), TurnReturn(), Normalisation()))


@pytest.mark.parametrize(
    ("sharpness", "temperature", "packing"),
    [
        *((12.0, 0.7, False), (12.0, 1.0, True)),
        *(pytest.param(12.0, *case, marks=pytest.mark.long) for case in ((0.7, True), (1.0, False))),
        *(pytest.param(1.0, *case, marks=pytest.mark.long) for case in itertools.product((0.7, 1.0), (False, True))),
    ],
)
def test_every_token_of_many_turns_has_one_log_probability(
    alone: Any,
    tiny: Path,
    sampler: VllmSampler,
    turns_table: Callable[[list[dict[str, Any]]], pa.Table],
    packing: bool,
    temperature: float,
    sharpness: float,
) -> None:
    model = peaked(load_policy(tiny, "float32").model, sharpness)
    turns = as_turns(sampled(sampler, model, temperature), temperature, turns_table)
    zero = ZeroSection(micro_batch_tokens=2048, packing=packing)
    config = TrainerConfig(
        run=GrpoRunSection(dir=Path("unused")), policy={"path": tiny, "dtype": "float32"},
        algorithm=AlgorithmSection(entropy_coefficient=0.01),
        optimizer=OptimizerSection(lr=0.0), zero=zero,
    )  # fmt: skip
    engine = ZeroEngine(model, zero=zero, optimizer=config.optimizer, ranks=alone, dtype="float32")
    gaps = []
    for numbers in micro_batches([len(row) for row in turns.rows], zero.micro_batch_tokens, packed=packing):
        with torch.no_grad():
            logprobs_BT, _ = engine.logprobs(
                pad_rows([turns.rows[i] for i in numbers], alone.device), turns.temperature
            )
        for number, own_T in zip(numbers, logprobs_BT.numpy(), strict=True):
            row = turns.rows[number]
            gaps.append(np.abs(own_T[: len(row)] - turns.sampler[number])[row.mask == 1])
    every = np.concatenate(gaps)
    # Some completions end early, at the policy's own stop token.
    assert len(every) == turns.lengths.sum() > 1500
    assert every.max() <= GAP

    figures = PolicyUpdate(engine, None, alone, config).run(turns, 0).figures
    assert figures["sampler_gap"] == pytest.approx(every.mean(), rel=0.2, abs=1e-7)
    assert abs(figures["sampler_kl"]) < 1e-6
    assert figures["sampler_ess"] == pytest.approx(1.0, abs=1e-6)
    assert figures["sampler_rejected"] == 0.0
