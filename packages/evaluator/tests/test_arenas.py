"""Fills of raw memory."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator import arenas


@given(start=st.integers(0, 24), size=st.integers(0, 80), byte=st.integers(0, 255))
def test_a_fill_sets_all_bytes_and_no_others(start, size, byte):
    other = byte ^ 0xFF
    whole = torch.full((128,), other, dtype=torch.uint8)
    arenas.fill(whole[start : start + size], byte)
    expected = [other] * start + [byte] * size + [other] * (128 - start - size)
    assert whole.tolist() == expected
