"""Digests: equal for equal bytes, and different for what goes wrong on the way."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.rollout.samplers.weights.stream.digest import DigestBatch, digests_of

SIZES = st.one_of(st.integers(1, 40), st.sampled_from([16383, 16384, 16385, 3 * 16384 + 5]))


def digest(tensor):
    return digests_of([tensor])[0]


def noise(size, seed, dtype=torch.bfloat16):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)).to(dtype)


@given(SIZES, st.integers(0, 99), st.sampled_from([torch.bfloat16, torch.float16, torch.float32]))
def test_the_same_bytes_have_the_same_digest_wherever_they_lie(size, seed, dtype):
    tensor = noise(size, seed, dtype)
    moved = torch.cat([noise(3, 0, dtype), tensor, noise(2, 1, dtype)])[3:-2]
    assert digest(tensor) == digest(tensor.clone()) == digest(moved)


@given(SIZES, st.integers(0, 99), st.data())
def test_one_changed_bit_changes_it(size, seed, data):
    tensor = noise(size, seed)
    at = data.draw(st.integers(0, 2 * size - 1))
    changed = tensor.clone()
    changed.view(torch.uint8)[at] ^= 1 << data.draw(st.integers(0, 7))
    assert digest(changed) != digest(tensor)


@given(SIZES.filter(lambda size: size > 1), st.integers(0, 99), st.data())
def test_two_elements_exchanged_or_negated_change_it(size, seed, data):
    tensor = noise(size, seed)
    first, second = data.draw(st.lists(st.integers(0, size - 1), min_size=2, max_size=2, unique=True))
    # Two sign bits at the top of their words: what cancels where weights are multiplied modulo 2^64 carelessly.
    negated = tensor.clone()
    negated[[first, second]] *= -1
    assert digest(negated) != digest(tensor)
    exchanged = tensor.clone()
    exchanged[[first, second]] = tensor[[second, first]]
    assert (digest(exchanged) != digest(tensor)) == (not torch.equal(exchanged, tensor))


def rounded(tensor):
    return tensor.to(torch.float8_e4m3fn).to(tensor.dtype)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: torch.cat([t[: t.numel() // 2], torch.zeros_like(t[t.numel() // 2 :])]),
        lambda t: t.roll(1),
        lambda t: t.flip(0),
        lambda t: t * 2,
        lambda t: -t,
        lambda t: torch.cat([t[16384 * 2 :], t[: 16384 * 2]]),
        rounded,
        lambda t: torch.cat([t, torch.zeros(1, dtype=t.dtype)]),
    ],
    ids=["partly missing", "shifted", "reversed", "doubled", "negated", "rows exchanged", "rounded", "a zero more"],
)
def test_wrong_tensors_have_another_digest(change):
    tensor = noise(100_000, 7)
    assert digest(change(tensor)) != digest(tensor)


def test_zeros_of_several_sizes_differ_and_a_scalar_has_one():
    found = [digest(torch.zeros(size)) for size in (1, 2, 3, 16384, 16385)]
    assert len(set(found)) == len(found)
    assert isinstance(digest(torch.tensor(1.0)), int)
    assert digests_of([]) == []
    assert len(set(digests_of([torch.zeros(0), torch.zeros(1)]))) == 2


@given(st.lists(st.tuples(SIZES, st.integers(0, 3)), max_size=6))
def test_a_batch_gives_each_tensor_the_digest_that_it_has_alone(several):
    tensors = [noise(size, seed) for size, seed in several]
    assert digests_of(tensors) == [digest(tensor) for tensor in tensors]


def test_a_tensor_may_change_once_it_was_added():
    tensor, batch = noise(40_000, 1), DigestBatch()
    expected = digest(tensor)
    batch.add(tensor)
    tensor.zero_()
    assert batch.read() == [expected]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("size", [1, 7, 16384, 3_000_001])
def test_a_gpu_computes_what_the_cpu_computes(size):
    tensor = noise(size, 3)
    assert digest(tensor.cuda()) == digest(tensor)
    assert digests_of([tensor.cuda(), tensor[:5].cuda()]) == digests_of([tensor, tensor[:5]])
