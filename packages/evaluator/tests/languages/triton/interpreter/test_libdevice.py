"""CUDA's device library as the interpreter computes it, against torch and against Python's own mathematics."""

import inspect
import math
import re

import numpy as np
import pytest
import torch
from triton.language.extra.cuda import libdevice as cuda

from warpsmith.evaluator.languages.triton.interpreter.libdevice import (
    FUNCTIONS,
    UnsupportedOnCpuError,
    compute,
    function_of,
)

SYMBOLS = set(re.findall(r'"__nv_(\w+)"', inspect.getsource(cuda)))
GRID = np.concatenate([np.linspace(-3, 3, 121), [-0.5, 0.5, 1.5, 2.5, 40.0, -40.0]])
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan])


def test_every_function_has_a_symbol_of_tritons_library():
    assert {name for name in FUNCTIONS if not {name, f"{name}f"} & SYMBOLS} <= {
        *(f"{origin}2{to}_rn" for origin in ("int", "uint", "ll", "ull", "double") for to in ("float", "double")),
        *(f"{test}{kind}" for test in ("isnan", "isinf", "isfinite", "finite", "signbit") for kind in ("", "d", "f")),
        "fsqrt_rn",
        "drsqrt_rn",
    }


ONE_NUMBER = """
    sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh ceil floor
    trunc rsqrt erf erfc erfinv lgamma
"""


@pytest.mark.parametrize("name", ONE_NUMBER.split())
@pytest.mark.parametrize("dtype", [np.dtype(np.float32), np.dtype(np.float64)], ids=str)
def test_a_function_of_one_number_is_torchs(name, dtype):
    x = np.concatenate([GRID, SPECIAL]).astype(dtype)
    expected = getattr(torch, name)(torch.from_numpy(x.astype(np.float64))).numpy().astype(dtype)
    np.testing.assert_allclose(compute(f"__nv_{name}{'f' * (dtype.itemsize == 4)}", [x], dtype), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("symbol", "arguments", "expected"),
    [
        ("powf", (2.0, 0.5), math.sqrt(2)),
        ("powif", (-2.0, np.int32(3)), -8.0),
        ("fmodf", (-5.5, 2.0), -1.5),
        ("remainderf", (5.0, 3.0), -1.0),
        ("remainderf", (5.0, 0.0), math.nan),
        ("atan2f", (1.0, -1.0), math.atan2(1, -1)),
        ("copysignf", (2.0, -0.0), -2.0),
        ("hypotf", (3.0, 4.0), 5.0),
        ("rhypotf", (3.0, 4.0), 0.2),
        ("fdimf", (3.0, 5.0), 0.0),
        ("fdimf", (math.nan, 5.0), math.nan),
        ("fmaf", (2.0, 3.0, 4.0), 10.0),
        ("ldexpf", (0.75, np.int32(3)), 6.0),
        ("norm3df", (2.0, 3.0, 6.0), 7.0),
        ("roundf", (2.5,), 3.0),
        ("roundf", (-0.5,), -1.0),
        ("roundf", (0.49999997,), 0.0),
        ("rintf", (2.5,), 2.0),
        ("nearbyintf", (-1.5,), -2.0),
        ("cbrtf", (-27.0,), -3.0),
        ("exp10f", (2.0,), 100.0),
        ("fast_expf", (1.0,), math.e),
        ("fast_fdividef", (1.0, 4.0), 0.25),
        ("fadd_rn", (1.0, 2.0), 3.0),
        ("saturatef", (1.5,), 1.0),
        ("saturatef", (math.nan,), 0.0),
        ("normcdff", (0.0,), 0.5),
        ("tgammaf", (5.0,), 24.0),
        ("tgammaf", (-1.0,), math.nan),
        ("logbf", (10.0,), 3.0),
        ("cospif", (1.0,), -1.0),
        ("cospif", (0.5,), 0.0),
        ("sinpif", (3.0,), 0.0),
        ("sinpif", (0.5,), 1.0),
        ("j0f", (math.inf,), 0.0),
        ("y0f", (math.inf,), 0.0),
        ("y0f", (-math.inf,), math.nan),
    ],
)
def test_other_functions_give_what_cudas_documentation_says(symbol, arguments, expected):
    arrays = [np.array([value], dtype=getattr(value, "dtype", np.float32)) for value in arguments]
    found = compute(f"__nv_{symbol}", arrays, np.dtype(np.float32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.float32(expected), rtol=1e-6)


@pytest.mark.parametrize(
    ("symbol", "x", "expected"),
    [
        ("isnanf", [math.nan, 1.0], [1, 0]),
        ("isinfd", [math.inf, 1.0], [1, 0]),
        ("finitef", [math.inf, 1.0], [0, 1]),
        ("signbitf", [-0.0, 0.0], [1, 0]),
        ("float2int_rn", [2.5, -2.5], [2, -2]),
        ("float2int_rz", [2.7, -2.7], [2, -2]),
        ("float2int_rd", [1e20, math.nan], [2**31 - 1, 0]),
        ("llroundf", [2.5, -0.5], [3, -1]),
        ("float_as_int", [1.0, -0.0], [0x3F800000, -(2**31)]),
    ],
)
def test_integer_results_round_and_stay_in_range_as_on_the_chip(symbol, x, expected):
    found = compute(f"__nv_{symbol}", [np.array(x, dtype=np.float32)], np.dtype(np.int32))
    assert found.tolist() == expected


@pytest.mark.parametrize(("symbol", "dtype"), [("fmaf", np.float32), ("fma", np.float64), ("fmaf_rn", np.float32)])
def test_a_fused_product_is_rounded_once(symbol, dtype):
    x = np.array([1 + np.finfo(dtype).eps], dtype=dtype)
    rest = float(compute(f"__nv_{symbol}", [x, x, -(x * x)], np.dtype(dtype))[0])
    assert rest == float(np.finfo(dtype).eps) ** 2


@pytest.mark.parametrize("name", ["brev", "jnf", "fadd_rz", "nothing"])
def test_a_function_without_a_counterpart_is_refused_by_name(name):
    with pytest.raises(UnsupportedOnCpuError, match=name):
        function_of(f"__nv_{name}")
