"""The parts of `benchmarks/eight_b.py`: the policy with random weights, the recorded answers, the figures of a step."""

import ast
import sys
from collections import Counter
from pathlib import Path

import pytest

from warpsmith.policy.loading import check_shapes, check_weights, load_policy
from warpsmith.policy.tiny import build_tiny
from warpsmith.rollout.datasets import generated
from warpsmith.trainer.planning.shapes import shape_of

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(autouse=True)
def on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    monkeypatch.syspath_prepend(BENCHMARKS / "_eight_b")
    yield
    for name in ("_random_policy", "recorded_answers", "eight_b"):
        sys.modules.pop(name, None)


def test_a_random_policy_has_its_shape_and_gives_only_tokens_that_its_tokenizer_has(tmp_path):
    import _random_policy
    import torch

    tokenizer = build_tiny(tmp_path / "tokenizer", ["def add(x, y): return x + y\n" * 20], layers=1)
    directory = tmp_path / "policy"
    _random_policy.write_policy(directory, _random_policy.SHAPES["tiny"], tokenizer)
    assert len(check_weights(directory)) == 1
    check_shapes(directory)
    assert shape_of(directory).parameters == _random_policy.SHAPES["tiny"].parameters
    policy = load_policy(directory, "bfloat16")
    with torch.no_grad():
        logits_TV = policy.model(torch.tensor([policy.tokenizer.encode("def add(x)")])).logits[0].float()
    assert torch.isfinite(logits_TV).all()
    known = len(policy.tokenizer)
    assert float(logits_TV.softmax(-1)[:, known:].sum()) < 1e-6
    assert float(logits_TV[:, :known].std()) > 0.01


def test_the_weights_of_the_real_shape_are_complete():
    import _random_policy

    shape = _random_policy.SHAPES["qwen3-8b"]
    shards = _random_policy.shards_of(shape)
    assert sum(weight.bytes for shard in shards for weight in shard) == 2 * shape.parameters
    assert len({weight.name for shard in shards for weight in shard}) == 3 + 11 * shape.layers
    assert max(sum(weight.bytes for weight in shard) for shard in shards) < 3 << 30


def test_a_shape_with_tied_embeddings_is_refused(tmp_path):
    import _random_policy

    with pytest.raises(SystemExit, match="tied"):
        _random_policy.write_policy(tmp_path / "policy", _random_policy.SHAPES["qwen3-0.6b"], tmp_path)


def test_recorded_answers_are_of_every_kind_and_the_same_for_the_same_completion():
    import recorded_answers

    problem = generated(seed=0, count=1, split="train", levels=(1,), size="gpu")[0]
    found = [recorded_answers.answer_for(problem, f"recorded answer {number}") for number in range(200)]
    bodies = Counter(None if answer is None else answer.partition("\n")[2] for answer in found)
    assert bodies[problem.solution] > 20
    assert bodies[None] > 10
    assert any("tl.stored(" in body for body in bodies if body)
    assert len(bodies) >= 5
    for body in filter(None, bodies):
        ast.parse(body)
    assert recorded_answers.answer_for(problem, "recorded answer 7") == found[7]
    assert len({answer for answer in found if answer}) == sum(answer is not None for answer in found)


def test_model_flops_are_six_a_weight_and_token_and_attention():
    import eight_b

    shape = eight_b.shape_of(Path("qwen3-8b"))
    weights = shape.parameters - shape.embedding
    once = eight_b.flops_of(shape, [1000])
    assert once == 6 * weights * 1000 + 6 * 32 * 128 * 36 * 1000**2
    assert eight_b.flops_of(shape, [1000, 1000]) == 2 * once
    assert eight_b.flops_of(shape, [2000]) > 2 * once
