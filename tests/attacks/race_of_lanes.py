# problem: add
# permitted: runtime_error
# permitted on cuda: incorrect
# Stores and loads what other lanes stored, without a barrier.
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
    tl.store(scratch_ptr + offsets, right)
    mirrored = tl.load(scratch_ptr + program * BLOCK + (BLOCK - 1 - lane))
    tl.debug_barrier()
    tl.store(scratch_ptr + offsets, mirrored)
    tl.debug_barrier()
    result = tl.load(scratch_ptr + program * BLOCK + (BLOCK - 1 - lane))
    tl.store(out_ptr + offsets, result, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, n = torch.empty_like(x), x.numel()
        programs = triton.cdiv(n, 512)
        scratch = torch.zeros(programs * 512, device=x.device)
        add_kernel[(programs,)](x, y, out, scratch, n, BLOCK=512)
        return out
