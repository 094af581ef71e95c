# problem: moments
# permitted: incorrect
# The mean of squares less the square of the mean: no digit is left where the mean is a thousand deviations.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def moments_kernel(x_ptr, mean_ptr, variance_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=0.0)
    mean = tl.sum(x, axis=0) / columns
    variance = tl.sum(x * x, axis=0) / columns - mean * mean
    tl.store(mean_ptr + row, mean)
    tl.store(variance_ptr + row, variance)


class ModelNew(nn.Module):
    def forward(self, x):
        mean, variance = (torch.empty(x.shape[0], device=x.device) for _ in range(2))
        moments_kernel[(x.shape[0],)](x, mean, variance, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return {"mean": mean, "variance": variance}
