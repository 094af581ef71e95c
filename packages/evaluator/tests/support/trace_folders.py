"""Small data sets of traces: RMS norm in FlashInfer-trace's layout, a gather and a gate in SOL-ExecBench's."""

import json
from pathlib import Path

import numpy
from safetensors.numpy import save_file

NORM = {
    "name": "small_norm_h48",
    "op_type": "norm",
    "axes": {"rows": {"type": "var"}, "width": {"type": "const", "value": 48, "description": "never another"}},
    "inputs": {
        "x": {"shape": ["rows", "width"], "dtype": "float32"},
        "scale": {"shape": ["width"], "dtype": "float32"},
        "eps": {"shape": None, "dtype": "float32"},
    },
    "outputs": {"y": {"shape": ["rows", "width"], "dtype": "float32"}},
    "reference": "import torch\n\n\n@torch.no_grad()\ndef run(x, scale, eps):\n    assert x.shape[1] == 48\n"
    "    mean = x.pow(2).mean(-1, keepdim=True)\n    return {'y': x * torch.rsqrt(mean + eps) * scale}\n",
    "tags": ["status:draft"],
}
NORM_KERNEL = """\
import triton
import triton.language as tl


@triton.jit
def norm(x, scale, y, eps, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    here = at < WIDTH
    row = tl.load(x + tl.program_id(0) * WIDTH + at, mask=here, other=0.0)
    found = row * tl.rsqrt(tl.sum(row * row) / WIDTH + eps) * tl.load(scale + at, mask=here)
    tl.store(y + tl.program_id(0) * WIDTH + at, found, mask=here)


def launch(x, scale, eps, y):
    norm[(x.shape[0],)](x, scale, y, eps, WIDTH=48, BLOCK=64)
"""
WORKLOADS = {"few": 3, "many": 40}

PICK = {
    "name": "001_pick",
    "axes": {
        "count": {"type": "var"},
        "picked": {"type": "var"},
        "half": {"type": "const", "value": 8},
        "width": {"type": "expr", "expression": "half * 2"},
    },
    "inputs": {
        "table": {"shape": ["count", "width"], "dtype": "float32", "description": None},
        "index": {"shape": ["picked"], "dtype": "int32"},
    },
    "outputs": {"out": {"shape": ["picked", "width"], "dtype": "float32"}},
    "reference": "def run(table, index):\n    return table[index.long()]\n",
}
PICK_KERNEL = """\
import triton
import triton.language as tl


@triton.jit
def pick(table, index, out, WIDTH: tl.constexpr):
    at = tl.arange(0, WIDTH)
    row = tl.load(index + tl.program_id(0))
    tl.store(out + tl.program_id(0) * WIDTH + at, tl.load(table + row * WIDTH + at))


def launch(table, index, out):
    pick[(index.shape[0],)](table, index, out, WIDTH=16)
"""
GATE = {
    "name": "002_gate",
    "axes": {"rows": {"type": "var"}},
    "custom_inputs_entrypoint": "make",
    "inputs": {"x": {"shape": ["rows", "20"], "dtype": "float32"}, "g": {"shape": ["rows", "20"], "dtype": "float32"}},
    "outputs": {"y": {"shape": ["rows", "20"], "dtype": "float32"}, "z": {"shape": ["rows", "20"], "dtype": "float32"}},
    "reference": "import torch\n\n\ndef make(axes, device):\n    rows = axes['rows']\n"
    "    return {name: torch.randn(rows, 20, device=device) for name in ('x', 'g')}\n\n\n"
    "def run(x, g):\n    return x * g, x - g\n",
}
GATE_CANDIDATE = """\
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gate(x, g, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(x + at, mask=at < n), tl.load(g + at, mask=at < n)
    tl.store(y + at, a * b, mask=at < n)
    tl.store(z + at, a - b, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, g):
        y, z = torch.empty_like(x), torch.empty_like(x)
        gate[(triton.cdiv(x.numel(), 128),)](x, g, y, z, x.numel(), BLOCK=128)
        return y, z
"""


def solution(name, definition, source, **spec):
    """Return a solution in FlashInfer-trace's form that writes to its outputs."""
    return {
        "name": name,
        "definition": definition,
        "author": "somebody",
        "spec": {"language": "triton", "target_hardware": ["cuda"], "entry_point": "main.py::launch", **spec},
        "sources": [{"path": "main.py", "content": source}],
    }


def norm_workload(uuid, rows):
    inputs = {"x": {"type": "random"}, "scale": {"type": "random"}, "eps": {"type": "scalar", "value": 1e-5}}
    workload = {"uuid": uuid, "axes": {"rows": rows}, "inputs": inputs, "note": "kept"}
    return {"definition": NORM["name"], "solution": None, "workload": workload, "evaluation": None}


def flashinfer_folder(root: Path) -> Path:
    """Write a data set in FlashInfer-trace's layout, with a right solution, a wrong one and one in another language."""
    write(root / "definitions/norm/small_norm_h48.json", NORM)
    write_lines(root / "workloads/norm/small_norm_h48.jsonl", [norm_workload(*one) for one in WORKLOADS.items()])
    wrong = NORM_KERNEL.replace("/ WIDTH + eps", "/ (WIDTH if tl.program_id(0) < 20 else 40) + eps")
    solutions = {
        "right": solution("right", NORM["name"], NORM_KERNEL),
        "wrong": solution("wrong", NORM["name"], wrong),
        "foreign": solution("foreign", NORM["name"], "//", language="cuda"),
    }
    for name, one in solutions.items():
        write(root / f"solutions/somebody/norm/small_norm_h48/{name}.json", one)
    return root


def sol_folder(root: Path) -> Path:
    """Write a data set in SOL-ExecBench's layout: one problem with stored indices, one with inputs of its own code."""
    write(root / "L1/001_pick/definition.json", PICK)
    numpy_index = numpy.array([4, 0, 2, 2, 8], dtype=numpy.int32)
    save_file({"rows": numpy_index}, root / "L1/001_pick/tables.safetensors")
    stored = {"type": "safetensors", "path": "tables.safetensors", "tensor_key": "rows"}
    inputs = {"table": {"type": "random"}, "index": stored}
    workload = {"uuid": "stored", "axes": {"count": 9, "picked": 5}, "inputs": inputs, "tolerance": {"max_atol": 0.1}}
    write_lines(root / "L1/001_pick/workload.jsonl", [workload])
    spec = {"language": None, "languages": ["triton"]}
    write(root / "L1/001_pick/solution_triton.json", solution("picker", PICK["name"], PICK_KERNEL, **spec))
    write(root / "L1/002_gate/definition.json", GATE)
    custom = {"x": {"type": "custom"}, "g": {"type": "custom"}}
    lines = [{"uuid": f"made {rows}", "axes": {"rows": rows}, "inputs": custom} for rows in (2, 11)]
    write_lines(root / "L1/002_gate/workload.jsonl", lines)
    return root


def write(path, document):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))


def write_lines(path, documents):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in documents))
