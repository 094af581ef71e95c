# problem: add
# permitted: compile_error
# permitted on cuda: compile_error, runtime_error
# 64 warps are 2048 threads: more than a block has.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    offsets = program * BLOCK + lane
    mask = offsets < n
    right = tl.load(x_ptr + offsets, mask=mask, other=0.0) + tl.load(y_ptr + offsets, mask=mask, other=0.0)
    result = right
    tl.store(out_ptr + offsets, result, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, n = torch.empty_like(x), x.numel()
        add_kernel[(triton.cdiv(n, 512),)](x, y, out, n, BLOCK=512, num_warps=64)
        return out
