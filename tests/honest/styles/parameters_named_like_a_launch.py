import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Nearest samples of rows at given places, warmed up by a ramp."""

    def forward(self, x, grid):
        places = ((grid + 1.0) * 0.5 * (x.shape[1] - 1)).clamp(0, x.shape[1] - 1).floor().long()
        warmup = F.hardtanh(torch.arange(grid.shape[1], device=x.device) / 4.0, 0.0, 1.0)
        return torch.gather(x, 1, places) * warmup


def get_inputs():
    return [torch.randn(6, 21), torch.rand(6, 17) * 2 - 1]


def get_init_inputs():
    return []
# ----- candidate -----
"""Parameters of a kernel are named by what they are; Triton binds them by position, whatever their names."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sample_rows(self, grid, out, width, args, warmup, kwargs: tl.constexpr, num_warps: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, kwargs)
    inside = col < args
    at = tl.load(grid + row * args + col, mask=inside, other=-1.0)
    place = tl.floor(tl.minimum(tl.maximum((at + 1.0) * 0.5 * (width - 1), 0.0), width - 1.0)).to(tl.int32)
    value = tl.load(self + row * width + place, mask=inside, other=0.0)
    ramp = tl.minimum(col.to(tl.float32) / warmup, 1.0)
    tl.store(out + row * args + col, value * ramp, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, grid):
        x, grid = x.contiguous(), grid.contiguous()
        rows, samples = grid.shape
        out = torch.empty_like(grid)
        block = triton.next_power_of_2(samples)
        sample_rows[(rows,)](x, grid, out, x.shape[1], samples, 4.0, kwargs=block, num_warps=2)
        return out
