"""Problems of several kinds, each with an honest candidate, for tests of baselines and of absolute figures."""

from warpsmith.evaluator import Problem

HEAD = "import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n"


def _problem(name: str, model: str, inputs: str) -> Problem:
    source = f"{HEAD}{model}\n\ndef get_inputs():\n    return [{inputs}]\n\ndef get_init_inputs():\n    return []\n"
    return Problem.from_source(source, name)


def _of(forward: str, init: str = "") -> str:
    lines = f"    def __init__(self):\n        super().__init__()\n{init}" if init else ""
    return f"class Model(nn.Module):\n{lines}    def forward(self, x):\n        return {forward}\n"


def pointwise(name: str, formula: str, before: str = "x", init: str = "") -> str:
    """Return a candidate with one elementwise kernel on `before`, an expression of forward's `x`."""
    constructor = f"    def __init__(self):\n        super().__init__()\n{init}" if init else ""
    return f"""{HEAD}@triton.jit
def {name}(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, {formula}, mask=at < n)

class ModelNew(nn.Module):
{constructor}    def forward(self, x):
        x = {before}
        out = torch.empty_like(x)
        n = x.numel()
        {name}[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
        return out
"""


_SOFTMAX = (
    HEAD
    + """@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * columns + column, e / tl.sum(e, axis=0), mask=column < columns)

class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        columns = x.shape[-1]
        softmax_kernel[(x.numel() // columns,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
"""
)

_NORM = (
    HEAD
    + """@triton.jit
def norm_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    inside = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=0.0)
    mean = tl.sum(x, axis=0) / columns
    d = tl.where(inside, x - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(d * d, axis=0) / columns + eps)
    weight = tl.load(weight_ptr + column, mask=inside)
    bias = tl.load(bias_ptr + column, mask=inside)
    tl.store(out_ptr + row * columns + column, d * scale * weight + bias, mask=inside)

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(1000)
    def forward(self, x):
        out = torch.empty_like(x)
        columns = x.shape[-1]
        grid = (x.numel() // columns,)
        block = triton.next_power_of_2(columns)
        norm_kernel[grid](x, self.norm.weight, self.norm.bias, out, columns, 1e-5, BLOCK=block)
        return out
"""
)

_MATMUL = (
    HEAD
    + """@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, SIDE: tl.constexpr, DEPTH: tl.constexpr):
    m = tl.program_id(0) * SIDE + tl.arange(0, SIDE)
    n = tl.program_id(1) * SIDE + tl.arange(0, SIDE)
    k = tl.arange(0, DEPTH)
    total = tl.zeros((SIDE, SIDE), dtype=tl.float32)
    for begin in range(0, K, DEPTH):
        inside = begin + k < K
        a = tl.load(a_ptr + m[:, None] * K + (begin + k)[None, :], mask=(m < M)[:, None] & inside[None, :], other=0.0)
        b = tl.load(b_ptr + (begin + k)[:, None] * N + n[None, :], mask=inside[:, None] & (n < N)[None, :], other=0.0)
        total += tl.dot(a, b)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total.to(tl.float16), mask=(m < M)[:, None] & (n < N)[None, :])

class ModelNew(nn.Module):
    def forward(self, x, y):
        M, K = x.shape
        N = y.shape[1]
        out = torch.empty((M, N), dtype=x.dtype, device=x.device)
        grid = (triton.cdiv(M, 128), triton.cdiv(N, 128))
        matmul_kernel[grid](x, y, out, M, N, K, SIDE=128, DEPTH=32, num_warps=8)
        return out
"""
)

PAIRS: dict[str, tuple[Problem, str]] = {
    "elementwise": (
        _problem("elementwise", _of("torch.relu(x) * 2.0 + 1.0"), "torch.randn(4096, 4096)"),
        pointwise("scale_kernel", "tl.maximum(x, 0.0) * 2.0 + 1.0"),
    ),
    "softmax": (_problem("softmax", _of("torch.softmax(x, dim=-1)"), "torch.randn(8192, 1000)"), _SOFTMAX),
    "matmul": (
        _problem(
            "matmul",
            "class Model(nn.Module):\n    def forward(self, x, y):\n        return x @ y\n",
            "torch.randn(2048, 2048, dtype=torch.float16), torch.randn(2048, 2048, dtype=torch.float16)",
        ),
        _MATMUL,
    ),
    "layernorm": (
        _problem(
            "layernorm", _of("self.norm(x)", "        self.norm = nn.LayerNorm(1000)\n"), "torch.randn(8192, 1000)"
        ),
        _NORM,
    ),
    "conv2d": (
        _problem(
            "conv2d",
            _of("torch.relu(self.conv(x))", "        self.conv = nn.Conv2d(32, 64, 3, padding=1)\n"),
            "torch.randn(16, 32, 56, 56)",
        ),
        pointwise(
            "relu_kernel", "tl.maximum(x, 0.0)", "self.conv(x)", "        self.conv = nn.Conv2d(32, 64, 3, padding=1)\n"
        ),
    ),
    "block": (
        _problem(
            "block",
            _of(
                "torch.tanh(self.first(x)) * torch.sigmoid(self.second(x))",
                "        self.first = nn.Linear(512, 1024)\n        self.second = nn.Linear(512, 1024)\n",
            ),
            "torch.randn(1024, 512)",
        ),
        HEAD
        + """@triton.jit
def gate_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    tanh = 2.0 / (1.0 + tl.exp(-2.0 * x)) - 1.0
    tl.store(out_ptr + at, tanh / (1.0 + tl.exp(-y)), mask=at < n)

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(512, 1024)
        self.second = nn.Linear(512, 1024)
    def forward(self, x):
        x, y = self.first(x), self.second(x)
        out = torch.empty_like(x)
        n = x.numel()
        gate_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
        return out
""",
    ),
}
"""Problem and candidate, by kind; the last two need the operator policy `library`."""
UNCOMPILED: Problem = _problem(
    "uncompiled", _of("torch.relu(x) if not torch.compiler.is_compiling() else x @ x[:3]"), "torch.randn(64, 64)"
)
"""A problem whose reference has impossible shapes for the compiler alone."""
