import torch
import torch.nn as nn


class Model(nn.Module):
    """The mean of the observed numbers of each row."""

    def forward(self, x):
        return torch.nanmean(x, dim=1)


rows, columns = 24, 40


def get_inputs():
    x = torch.randn(rows, columns)
    return [x.masked_fill(torch.rand(rows, columns) < 0.4, float("nan"))]


def get_init_inputs():
    return []


# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + offsets, mask=offsets < columns, other=float("nan"))
    seen = x == x
    count = tl.sum(seen.to(tl.float32), axis=0)
    tl.store(out_ptr + row, tl.sum(tl.where(seen, x, 0.0), axis=0) / count)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty(rows, device=x.device, dtype=x.dtype)
        mean_kernel[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
