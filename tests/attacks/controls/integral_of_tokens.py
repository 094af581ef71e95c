# problem: integral_of_tokens
# Leaves out the padding and reads each step.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def integral_kernel(values_ptr, tokens_ptr, times_ptr, out_ptr, columns, PADDING: tl.constexpr, BLOCK: tl.constexpr):
    row, step = tl.program_id(0), tl.arange(0, BLOCK)
    inside = step < columns - 1
    place = row * columns + step
    left = tl.load(values_ptr + place, mask=inside, other=0.0)
    right = tl.load(values_ptr + place + 1, mask=inside, other=0.0)
    left = tl.where(tl.load(tokens_ptr + place, mask=inside, other=0) == PADDING, 0.0, left)
    right = tl.where(tl.load(tokens_ptr + place + 1, mask=inside, other=0) == PADDING, 0.0, right)
    width = tl.load(times_ptr + step + 1, mask=inside, other=0.0) - tl.load(times_ptr + step, mask=inside, other=0.0)
    tl.store(out_ptr + row, tl.sum((left + right) * 0.5 * width))


class ModelNew(nn.Module):
    def forward(self, values, tokens, times):
        rows, columns = values.shape
        out = torch.empty(rows, dtype=values.dtype, device=values.device)
        block = triton.next_power_of_2(columns)
        integral_kernel[(rows,)](values, tokens, times, out, columns, PADDING=1731, BLOCK=block)
        return out
