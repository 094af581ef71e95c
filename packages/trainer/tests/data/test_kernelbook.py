"""KernelBook's rows under the names of the task."""

import ast
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsmith.evaluator.extract import extract_kernel
from warpsmith.rollout.datasets.kernelbook import as_task, with_class
from warpsmith.trainer.config.sources import KernelbookSource
from warpsmith.trainer.data.kernelbook import read_kernelbook
from warpsmith.trainer.data.sample import BadRow, Refusal, Sample

MODULE = """import torch
import torch.nn as nn


class Linear(nn.Module):

    def __init__(self, n):
        super(Linear, self).__init__()
        self.Linear = nn.Linear(n, n)  # not Linear itself

    def forward(self, x):
        return self.Linear(x)


def get_inputs():
    return [torch.rand([4, 4])]


def get_init_inputs():
    return [[], {'n': 4}]
"""
KERNELS = """import torch
import torch.nn as nn
import triton


@triton.jit
def triton_poi_fused_0(in_ptr0, xnumel, XBLOCK: 'tl.constexpr'):
    pass


def call(args):
    return args


class LinearNew(nn.Module):

    def __init__(self, n):
        super(LinearNew, self).__init__()
        self.Linear = nn.Linear(n, n)

    def forward(self, input_0):
        return call([input_0])[0]
"""
ROW = {"entry_point": "Linear", "python_code": MODULE, "triton_code": KERNELS, "uuid": 3, "stars": 1}


def test_a_pair_becomes_model_and_model_new_and_attributes_keep_their_names() -> None:
    module, kernels = as_task(ROW)
    assert "class Model(nn.Module)" in module
    assert "super(Model, self)" in module
    assert "self.Linear = nn.Linear(n, n)  # not Linear itself" in module
    assert "class ModelNew(nn.Module)" in kernels
    assert "super(ModelNew, self)" in kernels
    assert module.count("Linear") == MODULE.count("Linear") - 2
    ast.parse(kernels)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"triton_code": None}, "no text under triton_code"),
        ({"entry_point": "a b"}, "not a class name"),
        ({"entry_point": "Other"}, "no class of that name in python_code"),
        ({"triton_code": MODULE}, "no class of that name in triton_code"),
        ({"python_code": MODULE + "\nclass Model: ...\n"}, "python_code already has a `Model`"),
        ({"python_code": MODULE + "\nx = '''"}, "python_code is not Python"),
    ],
)
def test_a_row_that_cannot_be_used_says_why(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadRow) as caught:
        as_task({**ROW, **change})
    assert reason in caught.value.reason


@pytest.mark.parametrize("style", ["full", "compact"])
def test_a_file_gives_the_tasks_prompt_and_an_answer_that_holds_the_kernels(tmp_path: Path, style: str) -> None:
    path = tmp_path / "dataset_permissive.parquet"
    pq.write_table(pa.Table.from_pylist([ROW, {**ROW, "triton_code": "x = 1"}]), path)
    section = KernelbookSource(path=(path,), prompt_style=style)  # type: ignore[arg-type]
    good, bad = read_kernelbook(section, [path])
    assert isinstance(good, Sample)
    assert isinstance(bad, Refusal)
    assert extract_kernel(good.messages[-1]["content"]) == as_task(ROW)[1]
    assert "nn.Linear(n, n)" in good.messages[-2]["content"]
    assert bad.place == f"row 2 of {path}"


FORMS = st.sampled_from(["{} = 1", "y.{} = 2", "f({}, {})", "'{}'", "# {}\r\n"])
NAMES = st.sampled_from(["Net", "Nets", "x", "Ne"])


@settings(max_examples=150, deadline=None)
@given(lines=st.lists(st.tuples(NAMES, FORMS), max_size=6))
def test_renaming_changes_the_name_and_nothing_else(lines: list[tuple[str, str]]) -> None:
    code = "class Net:\n    pass\n" + "".join(form.replace("{}", name) + "\n" for name, form in lines)
    renamed = with_class(code, "Net", "Model", "c")
    assert "class Model:" in renamed
    assert with_class(renamed, "Model", "Net", "c") == code
    for before, after in zip(code.split("\n"), renamed.split("\n"), strict=True):
        plain = before.startswith(("'", "#", "y."))
        assert after == before if plain else "Net," not in after
