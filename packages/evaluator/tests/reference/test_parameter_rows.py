"""Rows of parameters become what no noise around the constructor's numbers gives."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from warpsmith.evaluator.reference.parameter_rows import CHANGES, DISTANCE, make_alike, set_apart, share_row


def generator(seed):
    return torch.Generator().manual_seed(seed)


@given(st.lists(st.integers(1, 5), max_size=4).map(tuple), st.integers(0, 1 << 30))
def test_parameters_of_any_shape_stay_finite_and_keep_a_row(shape, seed):
    parameter = torch.randn(shape, generator=generator(seed))
    before = parameter.clone()
    set_apart(parameter, generator(seed))
    assert torch.isfinite(parameter).all()
    if parameter.numel() < 2:
        assert torch.equal(parameter, before)
    elif parameter.dim() == 2 and shape[1] > 1:
        changed = (parameter != before).any(-1)
        assert changed.sum() <= max(1, min(len(parameter) - 1, len(CHANGES)))


def test_the_rows_of_a_matrix_are_changed_in_every_way():
    before = torch.randn(16, 8, generator=generator(0))
    parameter = before.clone()
    set_apart(parameter, generator(1))
    assert int((parameter != before).any(-1).sum()) >= len(CHANGES) - 2
    assert bool((parameter == 0).all(-1).any())
    assert bool((parameter > 0).all(-1).any())
    assert bool((parameter < 0).all(-1).any())
    assert bool((parameter.mean(-1).abs() > DISTANCE / 2).any())
    assert len(torch.unique(parameter, dim=0)) < len(parameter)
    assert bool((parameter == parameter[:, :1]).logical_and(parameter != 0).all(-1).any())


@pytest.mark.parametrize("begins", [torch.zeros(64), torch.full((64,), 0.01), torch.ones(64)])
def test_some_numbers_of_a_vector_overflow_an_exponential_on_both_sides(begins):
    kinds = set()
    for seed in range(20):
        parameter = begins.clone()
        set_apart(parameter, generator(seed))
        kinds.add((bool((parameter > 89).any()), bool((parameter < -89).any())))
    assert (True, True) in kinds


def test_half_precision_stays_finite():
    parameter = (60_000 * torch.randn(8, 8, generator=generator(0)).sign()).half()
    set_apart(parameter, generator(0))
    assert torch.isfinite(parameter).all()


def test_complex_parameters_are_changed_as_two_real_ones():
    parameter = torch.randn(6, 4, dtype=torch.complex64, generator=generator(0))
    before = parameter.clone()
    set_apart(parameter, generator(0))
    assert not torch.equal(parameter, before)


def test_a_row_of_an_input_becomes_one_of_a_parameter_where_width_and_dtype_agree():
    parameter, before = torch.zeros(5, 8), torch.zeros(5, 8)
    inputs = [torch.ones(3, 7), torch.ones(4, 8, dtype=torch.float16), torch.full((2, 3, 8), 2.0)]
    share_row(parameter, inputs, generator(0))
    assert sorted(parameter[:, 0].tolist()) == [0, 0, 0, 0, 2]
    permuted = torch.zeros(4, 6, 8).transpose(0, 1)
    share_row(permuted, inputs, generator(0))
    assert int((permuted == 2).all(-1).sum()) == 1
    for others in ([], inputs[:2], [torch.ones(8)], [torch.ones(0, 8)]):
        share_row(before, others, generator(0))
        assert not before.any()


@given(st.lists(st.integers(1, 5), max_size=4).map(tuple), st.integers(0, 1 << 30), st.booleans())
def test_alike_rows_are_those_of_the_parameter(shape, seed, decides):
    parameter = torch.randn(shape, generator=generator(seed), dtype=torch.float64)
    before = parameter.clone()
    make_alike(parameter, generator(seed), decides=decides)
    if parameter.numel() < 2:
        assert torch.equal(parameter, before)
        return
    rows, columns = parameter.reshape(len(parameter), -1), parameter.reshape(-1, parameter.shape[-1]).T
    assert any(torch.allclose(units, units[:1].expand_as(units), rtol=2**-9) for units in (rows, columns))
    assert all(bool(torch.isclose(before, number, rtol=2**-9).any()) for number in parameter.flatten())


def test_rows_are_equal_unless_the_problem_decides():
    for seed in range(8):
        exact, near = torch.randn(2, 6, 8, generator=generator(seed))
        make_alike(exact, generator(seed), decides=False)
        make_alike(near, generator(seed), decides=True)
        assert torch.equal(exact, exact[:1].expand_as(exact)) or torch.equal(exact, exact[:, :1].expand_as(exact))
        assert len(torch.unique((near / near.flatten()[0]).float().round(decimals=6))) > 1


def test_complex_parameters_can_be_alike():
    parameter = torch.randn(5, 3, dtype=torch.complex64)
    make_alike(parameter, generator(2), decides=False)
    assert len(torch.unique(torch.view_as_real(parameter).reshape(15, 2), dim=0)) <= 5
