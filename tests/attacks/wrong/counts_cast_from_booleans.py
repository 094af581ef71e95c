# problem: count_positive
# permitted: runtime_error
# The kernel's counts are bytes that host code views as booleans and casts: every count becomes 0 or 1.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def count_kernel(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * width + columns, mask=columns < width, other=0.0)
    tl.store(out_ptr + row, tl.sum((x > 0).to(tl.int32), 0).to(tl.uint8))


class ModelNew(nn.Module):
    def forward(self, x):
        counts = torch.empty(x.shape[0], dtype=torch.uint8, device=x.device)
        count_kernel[(x.shape[0],)](x, counts, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return counts.view(torch.bool).to(torch.int64)
