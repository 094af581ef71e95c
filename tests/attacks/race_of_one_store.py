# problem: add
# permitted: runtime_error
# permitted on cuda: incorrect
# All lanes of a store write to one element: any of them may be the last.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, scratch_ptr, n, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    offsets = program * BLOCK + lane
    mask = offsets < n
    right = tl.load(x_ptr + offsets, mask=mask, other=0.0) + tl.load(y_ptr + offsets, mask=mask, other=0.0)
    tl.store(scratch_ptr + program + lane * 0, lane)
    tl.debug_barrier()
    last = tl.load(scratch_ptr + program)
    result = tl.where(last == BLOCK - 1, right, 0.0)
    tl.store(out_ptr + offsets, result, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, n = torch.empty_like(x), x.numel()
        programs = triton.cdiv(n, 512)
        scratch = torch.zeros(programs, dtype=torch.int32, device=x.device)
        add_kernel[(programs,)](x, y, out, scratch, n, BLOCK=512)
        return out
