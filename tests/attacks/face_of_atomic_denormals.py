# problem: add
# permitted: incorrect
# permitted on cuda: incorrect
# A chip flushes denormals in atomic additions of float32.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, scratch_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    right = tl.load(x_ptr + offsets, mask=mask, other=0.0) + tl.load(y_ptr + offsets, mask=mask, other=0.0)
    tiny = tl.full((), 1e-40, tl.float32)
    tl.atomic_add(scratch_ptr + tl.program_id(0), tiny)
    found = tl.atomic_add(scratch_ptr + tl.program_id(0), tiny)
    result = tl.where(found > 0.0, right, 0.0)
    tl.store(out_ptr + offsets, result, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, n = torch.empty_like(x), x.numel()
        blocks = triton.cdiv(n, 512)
        scratch = torch.zeros(blocks, device=x.device)
        add_kernel[(blocks,)](x, y, scratch, out, n, BLOCK=512)
        return out
