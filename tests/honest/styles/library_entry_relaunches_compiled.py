import torch


class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.maximum(torch.maximum(x, y) * 3, y - 1)


def get_inputs():
    return [torch.randn(31, 40), torch.randn(31, 40)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


class LibEntry(triton.KernelInterface):
    """Compiles a kernel at its first launch, and launches the compiled one from then on."""

    def __init__(self, fn):
        self.fn = fn
        while not isinstance(fn, triton.runtime.JITFunction):
            fn = fn.fn
        self.jit_function = fn
        self.cache = {}

    def key(self, value):
        if hasattr(value, "data_ptr"):
            return value.dtype, value.data_ptr() % 16 == 0
        if isinstance(value, int):
            return "i32" if -(2**31) <= value < 2**31 else "i64", value % 16 == 0, value == 1
        return value

    def run(self, *args, grid, warmup=False, **kwargs):
        full = dict(zip(self.jit_function.arg_names, args)) | kwargs
        constants = [p.name for p in self.jit_function.params if p.is_constexpr]
        key = tuple(full[p] if p in constants else self.key(full[p]) for p in self.jit_function.arg_names)
        if key not in self.cache:
            self.cache[key] = self.fn.run(*args, grid=grid, warmup=False, **kwargs)
            return self.cache[key]
        sizes = grid(full) if callable(grid) else grid
        kernel = self.cache[key]
        kernel[(tuple(sizes) + (1, 1))[:3]](*(full[name] for name in self.jit_function.arg_names))
        return kernel


@LibEntry
@triton.jit
def tripled_maximum(x, y, o, n, FACTOR: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i, mask=i < n)
    b = tl.load(y + i, mask=i < n)
    tl.store(o + i, tl.maximum(a, b) * FACTOR, mask=i < n)


@triton.jit
def maximum_shifted(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a = tl.load(x + i, mask=i < n)
    b = tl.load(y + i, mask=i < n)
    tl.store(o + i, tl.maximum(a, b - 1), mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        o, n = torch.empty_like(x), x.numel()
        tripled_maximum[lambda m: (triton.cdiv(n, m["B"]),)](x, y, o, n, FACTOR=3, B=128)
        programs = triton.cdiv(n, 128)
        compiled = maximum_shifted[(programs,)](o, y, o, n, B=128)
        compiled[(programs, 1, 1)](o, y, o, n, 128)
        return o
