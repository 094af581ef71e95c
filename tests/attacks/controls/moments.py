# problem: moments
# A dict of two tensors, from one kernel.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def moments_kernel(x_ptr, mean_ptr, variance_ptr, columns, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / columns
    centred = tl.where(mask, x - mean, 0.0)
    tl.store(mean_ptr + row, mean)
    tl.store(variance_ptr + row, tl.sum(centred * centred, axis=0) / columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        mean = torch.empty(rows, dtype=x.dtype, device=x.device)
        variance = torch.empty_like(mean)
        moments_kernel[(rows,)](x, mean, variance, columns, BLOCK=triton.next_power_of_2(columns))
        return {"mean": mean, "variance": variance}
