"""The weight payload: round trips, and refusal of anything incomplete or damaged."""

import pickle
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from warpsmith.rollout.errors import BadPayloadError
from warpsmith.rollout.samplers.weights.payload import WeightPayload, checkpoint_shapes

shapes = st.lists(st.integers(0, 5), max_size=3).map(tuple)
dtypes = st.sampled_from([torch.float32, torch.bfloat16, torch.float16])
state_dicts = st.dictionaries(
    st.text("abc.", min_size=1, max_size=6), st.tuples(shapes, dtypes), min_size=1, max_size=6
)


def tensors_of(layout):
    torch.manual_seed(0)
    return {name: torch.randn(shape).to(dtype) for name, (shape, dtype) in layout.items()}


def expected(tensors):
    return {name: tuple(t.shape) for name, t in tensors.items()}


@pytest.fixture
def tensors():
    return tensors_of({"a": ((3, 4), torch.bfloat16), "b": ((5,), torch.float32), "c": ((), torch.float16)})


@given(state_dicts)
@settings(deadline=None)
def test_state_dicts_survive_bit_by_bit(layout):
    tensors = tensors_of(layout)
    payload = pickle.loads(pickle.dumps(WeightPayload.from_state_dict(4, tensors), protocol=5))
    payload.check(expected(tensors))
    found = dict(payload.tensors())
    assert list(found) == list(tensors)
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


def test_tensors_share_the_block_and_read_only_blocks_do(tensors):
    payload = WeightPayload.from_state_dict(1, tensors)
    payload.data.flags.writeable = False
    found = dict(payload.tensors())
    start = payload.data.ctypes.data
    assert start <= found["b"].data_ptr() < start + payload.data.size
    assert all(entry.offset % 64 == 0 for entry in payload.manifest)


def test_parameters_that_need_gradients_and_strided_views_are_taken():
    base = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))
    payload = WeightPayload.from_state_dict(1, {"t": base.t()})
    assert torch.equal(dict(payload.tensors())["t"], base.detach().t())


@pytest.mark.parametrize("position", range(4))
def test_a_flipped_byte_is_noticed(tensors, position):
    payload = WeightPayload.from_state_dict(1, tensors)
    entry = payload.manifest[position % 3]
    payload.data[entry.offset + entry.nbytes - 1] ^= 1
    with pytest.raises(BadPayloadError, match=rf"bytes of {entry.name} are damaged"):
        payload.check(expected(tensors))


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda p: replace(p, manifest=p.manifest[1:]), "lacks a"),
        (lambda p: replace(p, manifest=(*p.manifest, replace(p.manifest[0], name="z"))), "unknown z"),
        (lambda p: replace(p, manifest=(*p.manifest, p.manifest[0])), "twice a"),
        (lambda p: replace(p, manifest=(replace(p.manifest[0], shape=(4, 3)), *p.manifest[1:])), r"\(4, 3\)"),
        (lambda p: replace(p, data=p.data[:-1]), "ends at byte"),
    ],
)
def test_partial_payloads_are_refused(tensors, change, part):
    payload = WeightPayload.from_state_dict(1, tensors)
    with pytest.raises(BadPayloadError, match=part):
        change(payload).check(expected(tensors))


def test_a_tied_output_layer_may_be_there(tensors):
    payload = WeightPayload.from_state_dict(1, {**tensors, "lm_head.weight": torch.zeros(2)})
    payload.check(expected(tensors), optional=frozenset({"lm_head.weight"}))
    with pytest.raises(BadPayloadError, match="unknown lm_head"):
        payload.check(expected(tensors))


def test_integers_and_nothing_are_no_weights():
    with pytest.raises(BadPayloadError, match="steps is int64"):
        WeightPayload.from_state_dict(1, {"steps": torch.zeros(1, dtype=torch.int64)})
    with pytest.raises(BadPayloadError, match="no tensors"):
        WeightPayload.from_state_dict(1, {})


def test_a_saved_payload_is_a_safetensors_file(tmp_path, tensors):
    WeightPayload.from_state_dict(1, tensors).save(tmp_path / "model.safetensors")
    found = load_file(tmp_path / "model.safetensors")
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())
    assert checkpoint_shapes(tmp_path) == expected(tensors)


def test_shapes_come_from_every_file_and_damage_is_refused(tmp_path):
    with pytest.raises(BadPayloadError, match=r"no \.safetensors"):
        checkpoint_shapes(tmp_path)
    save_file({"a": torch.zeros(2)}, tmp_path / "1.safetensors")
    save_file({"b": torch.zeros(3)}, tmp_path / "2.safetensors")
    assert checkpoint_shapes(tmp_path) == {"a": (2,), "b": (3,)}
    (tmp_path / "3.safetensors").write_bytes(b"\x09")
    with pytest.raises(BadPayloadError, match=r"3\.safetensors"):
        checkpoint_shapes(tmp_path)
