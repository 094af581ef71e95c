import torch


class Model(torch.nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        return a * torch.sigmoid(b)


def get_inputs():
    return [torch.randn(12, 66).half()]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def glu(x_ptr, y_ptr, half, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    m = col < half
    a = tl.load(x_ptr + row * stride + col, mask=m, other=0.0).to(tl.float32)
    b = tl.load(x_ptr + row * stride + half + col, mask=m, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * half + col, (a * tl.sigmoid(b)).to(y_ptr.dtype.element_ty), mask=m)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rows, width = x.shape
        half = width // 2
        y = x.new_empty(rows, half)
        glu[(rows,)](x, y, half, x.stride(0), BLOCK=triton.next_power_of_2(half))
        return y
