# problem: add
# permitted: runtime_error
# permitted on cuda: incorrect
# bfloat16 is silently wrong under the interpreter, so it is refused with a reason.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.bfloat16)
    y = tl.load(y_ptr + offsets, mask=mask).to(tl.bfloat16)
    tl.store(out_ptr + offsets, (x + y).to(tl.float32), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
        return out
