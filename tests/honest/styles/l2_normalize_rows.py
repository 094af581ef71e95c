import torch
import torch.nn.functional as F


class Model(torch.nn.Module):
    def forward(self, x):
        return F.normalize(x, p=2, dim=1)


def get_inputs():
    return [torch.randn(17, 130)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def normalize(x_ptr, y_ptr, cols, sx, sy, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    for start in tl.range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * sx + c, mask=c < cols, other=0.0)
        acc += x * x
    norm = tl.maximum(tl.sqrt(tl.sum(acc)), 1e-12)
    for start in tl.range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * sx + c, mask=c < cols, other=0.0)
        tl.store(y_ptr + row * sy + c, x / norm, mask=c < cols)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.zeros_like(x)
        normalize[(x.size(0),)](x, y, x.size(1), x.stride(0), y.stride(0), BLOCK=32)
        return y
