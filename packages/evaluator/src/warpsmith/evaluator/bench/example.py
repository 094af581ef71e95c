"""Three problems with right and wrong answers, to try the bench without a dataset."""

from pathlib import Path
from typing import Final

from warpsmith.records.errors import UsageError

FOLDER: Final = Path("warpsmith-example")
"""Where `bench --example` writes its files, below the current directory."""

_ADD_RELU: Final = '''"""The sum of two matrices, negative entries set to zero."""

import torch


class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.relu(x + y)


def get_inputs():
    return [torch.randn(48, 130), torch.randn(48, 130)]


def get_init_inputs():
    return []
'''

_SOFTMAX: Final = '''"""A softmax over the rows of a matrix."""

import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)


def get_inputs():
    return [torch.randn(24, 200)]


def get_init_inputs():
    return []
'''

_GATE: Final = '''"""Columns scaled by learnt weights, then a sigmoid."""

import torch


class Model(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(columns))

    def forward(self, x):
        return torch.sigmoid(x * self.weight)


def get_inputs():
    return [torch.randn(40, 96)]


def get_init_inputs():
    return [96]
'''

_ADD_RELU_KERNEL: Final = """import torch
import triton
import triton.language as tl


@triton.jit
def add_relu(x, y, out, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    total = tl.load(x + offsets, mask=inside) + tl.load(y + offsets, mask=inside)
    tl.store(out + offsets, tl.maximum(total, 0.0), mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        add_relu[(triton.cdiv(out.numel(), 1024),)](x, y, out, out.numel(), BLOCK=1024)
        return out
"""

_SOFTMAX_KERNEL: Final = """import torch
import triton
import triton.language as tl


@triton.jit
def softmax_rows(x, out, columns, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    start = tl.program_id(0) * columns
    row = tl.load(x + start + offsets, mask=inside, other=-float("inf"))
    powers = tl.exp(row - tl.max(row, axis=0))
    tl.store(out + start + offsets, powers / tl.sum(powers, axis=0), mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, columns = x.shape
        softmax_rows[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
"""

_GATE_KERNEL: Final = """import torch
import triton
import triton.language as tl


@triton.jit
def gate(x, weight, out, columns, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    start = tl.program_id(0) * columns
    scaled = tl.load(x + start + offsets, mask=inside) * tl.load(weight + offsets, mask=inside)
    tl.store(out + start + offsets, 1.0 / (1.0 + tl.exp(-scaled)), mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(columns))

    def forward(self, x):
        out = torch.empty_like(x)
        rows, columns = x.shape
        gate[(rows,)](x, self.weight, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
"""

_NO_KERNEL: Final = """import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
"""

_PROBLEMS: Final = {
    "level1/1_Add_ReLU.py": _ADD_RELU,
    "level1/2_Softmax.py": _SOFTMAX,
    "level2/1_Gate.py": _GATE,
}
_ANSWERS: Final = {
    (1, 1, 0): _ADD_RELU_KERNEL,
    (1, 2, 0): _SOFTMAX_KERNEL,
    (2, 1, 0): _GATE_KERNEL,
    # The second answers are wrong: no maximum, torch instead of the kernel, and a mask that skips the last column.
    (1, 1, 1): _ADD_RELU_KERNEL.replace("tl.maximum(total, 0.0)", "total"),
    (1, 2, 1): _NO_KERNEL,
    (2, 1, 1): _GATE_KERNEL.replace("inside = offsets < columns", "inside = offsets < columns - 1"),
}


def write_example(folder: Path) -> tuple[Path, Path]:
    """Write the problems as a dataset and the answers as a run; return both folders.

    Raises:
        UsageError: a file of the same name holds something else.
    """
    dataset, generations = folder / "problems", folder / "generations"
    files = {dataset / name: text for name, text in _PROBLEMS.items()}
    for (level, number, sample), text in _ANSWERS.items():
        files[generations / f"level_{level}_problem_{number}_sample_{sample}_kernel.py"] = text
    for path, text in files.items():
        if path.exists() and path.read_bytes() != text.encode():
            raise UsageError(f"{path} exists and holds something else.", "Move it away, or run in another directory.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return dataset, generations
