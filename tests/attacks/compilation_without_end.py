# problem: row_sum
# permitted: compile_error
# slow: it waits for a deadline
# Unrolls an endless loop when it is compiled, and shows another launch in every trial so that it is compiled again.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, columns, other, TIMES: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    if other > 0:
        for _ in tl.static_range(TIMES):
            x = x + 0.0
    tl.store(out_ptr + row, tl.sum(x, 0))


class ModelNew(nn.Module):
    calls = 0

    def forward(self, x):
        out = torch.empty(x.shape[0], device=x.device)
        ModelNew.calls += 1
        block = triton.next_power_of_2(x.shape[1])
        # Interpreted, the branch is not taken; compiled, it is unrolled all the same.
        row_sum_kernel[(x.shape[0],)](
            x, out, x.shape[1], -ModelNew.calls * 1000 - 3, TIMES=100_000_000 + ModelNew.calls, BLOCK=block
        )
        return out
