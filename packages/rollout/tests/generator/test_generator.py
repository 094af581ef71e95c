"""The generator: seeded, split by composition, correct by construction."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.records.errors import UsageError
from warpsmith.rollout.generator import generate, split_of
from warpsmith.rollout.generator.chains import Step, has_sharp_extremum, is_well_conditioned
from warpsmith.rollout.generator.operations import UNARY

SUPPORT = Path(__file__).parents[1] / "support"
BY_NAME = {operation.name: operation for operation in UNARY}


def chain(*names):
    return tuple(Step(BY_NAME[name], BY_NAME[name].constants[0]) for name in names)


def written(root, problems):
    for problem in problems:
        folder = root / problem.name
        folder.mkdir()
        (folder / "problem.py").write_text(problem.source)
        (folder / "solution.py").write_text(problem.solution)
    return root


def run_program(name, root, **environment):
    done = subprocess.run(
        [sys.executable, str(SUPPORT / name), str(root)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@given(st.integers(0, 2**32), st.integers(1, 20))
@settings(max_examples=25, deadline=None)
def test_the_same_seed_gives_the_same_problems_and_a_prefix_of_more(seed, count):
    more = generate(seed=seed, count=count + 3)
    assert generate(seed=seed, count=count) == more[:count]
    assert len({p.name for p in more}) == len({p.source for p in more}) == count + 3


@given(st.integers(0, 2**32))
@settings(max_examples=10, deadline=None)
def test_the_splits_share_no_composition(seed):
    train = {p.composition for p in generate(seed=seed, count=60)}
    held_out = {p.composition for p in generate(seed=seed + 1, count=60, split="held_out")}
    assert not train & held_out
    assert {split_of(c) for c in train} == {"train"}
    assert {split_of(c) for c in held_out} == {"held_out"}


def test_every_operation_alone_is_in_the_train_split():
    assert {split_of(f"elementwise:{operation.name}") for operation in UNARY} == {"train"}
    assert split_of("reduction:sum()") == split_of("matmul()") == "train"


def test_both_splits_have_many_compositions():
    train = {p.composition for p in generate(seed=5, count=600)}
    held_out = {p.composition for p in generate(seed=5, count=600, split="held_out")}
    assert len(train) > 300
    assert len(held_out) > 200


def test_a_level_gives_the_same_problems_whatever_other_levels_are_asked_for():
    alone = generate(seed=1, count=4, levels=(2,))
    among = [p for p in generate(seed=1, count=12) if p.level == 2]
    assert alone == among


def test_problems_have_kernelbench_form_and_solutions_one_kernel():
    for problem in generate(seed=2, count=60):
        names = {n.name for n in ast.parse(problem.source).body if isinstance(n, ast.ClassDef | ast.FunctionDef)}
        assert names == {"Model", "get_inputs", "get_init_inputs"}
        names = {n.name for n in ast.parse(problem.solution).body if isinstance(n, ast.ClassDef | ast.FunctionDef)}
        assert names == {"kernel", "ModelNew"}
        assert len(problem.solution.splitlines()) <= 36


@pytest.mark.parametrize(
    "names", [("log",), ("reciprocal",), ("exp", "exp", "exp"), ("relu", "sqrt"), ("abs", "neg", "relu")]
)
def test_ill_conditioned_chains_are_refused(names):
    assert not is_well_conditioned(chain(*names))


@pytest.mark.parametrize("names", [("exp",), ("exp", "log"), ("abs", "add_c", "log"), ("sigmoid", "sqrt")])
def test_well_conditioned_chains_are_kept(names):
    assert is_well_conditioned(chain(*names))


LANGUAGE = SimpleNamespace(
    **{name: getattr(torch, name) for name in ("exp", "log", "sqrt", "rsqrt", "exp2", "log2", "sin", "cos", "abs")},
    **{name: getattr(torch, name) for name in ("erf", "sigmoid", "where")},
    maximum=lambda x, bound: torch.clamp(x, min=bound),
    minimum=lambda x, bound: torch.clamp(x, max=bound),
)
"""Triton's functions, as torch computes them."""


@pytest.mark.parametrize("operation", UNARY, ids=lambda operation: operation.name)
def test_the_two_texts_of_an_operation_agree_far_outside_the_sample(operation):
    x = torch.linspace(-300.0, 300.0, 1201)
    names = {"x": x, "torch": torch, "F": torch.nn.functional, "tl": LANGUAGE}
    constants = dict(zip("ab", operation.constants[0], strict=False))
    expected = eval(operation.torch.format(x="x", **constants), names)
    got = eval(operation.triton.format(x="x", **constants), names)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5, equal_nan=True)


def test_an_extremum_of_a_saturating_chain_is_not_sharp():
    assert has_sharp_extremum(chain("mul_c"), largest=True)
    assert not has_sharp_extremum(chain("clamp"), largest=True)
    assert not has_sharp_extremum(chain("square"), largest=False)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"split": "test"}, "train, held_out"),
        ({"levels": (4,)}, "1, 2, 3"),
        ({"levels": ()}, "1, 2, 3"),
        ({"count": -1}, "zero"),
    ],
)
def test_bad_arguments_say_what_there_is(arguments, part):
    with pytest.raises(UsageError, match=part):
        generate(**{"seed": 0, "count": 3, **arguments})


@pytest.mark.slow
@pytest.mark.parametrize("count", [160, pytest.param(240, marks=pytest.mark.long)])
@pytest.mark.parametrize("split", ["train", "held_out"])
def test_every_solution_agrees_with_its_problem(tmp_path, split, count):
    root = written(tmp_path, generate(seed=11, count=count, split=split))
    errors = run_program("interpreted_solutions.py", root, TRITON_INTERPRET="1")
    assert len(errors) == count
    assert {name: error for name, error in errors.items() if error > 5e-5} == {}


@pytest.mark.slow
@pytest.mark.parametrize("count", [40, pytest.param(60, marks=pytest.mark.long)])
def test_solutions_compile_for_a_gpu(tmp_path, count):
    root = written(tmp_path, generate(seed=12, count=count))
    failures = run_program("compiled_solutions.py", root)
    assert failures == dict.fromkeys(failures)
    assert len(failures) == count
