# problem: add
# permitted: undecided
# permitted on cuda: incorrect
# The compiler may compute % of doubles in single precision where they came from it and go back to it.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    right = tl.load(x_ptr + offsets, mask=mask, other=0.0) + tl.load(y_ptr + offsets, mask=mask, other=0.0)
    rest = ((right * 0.0 + 1.2345e20).to(tl.float64) % (right * 0.0 + 3.0).to(tl.float64)).to(tl.float32)
    result = tl.where((rest >= 0.0) & (rest < 3.0), right, 0.0)
    tl.store(out_ptr + offsets, result, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, n = torch.empty_like(x), x.numel()
        add_kernel[(triton.cdiv(n, 512),)](x, y, out, n, BLOCK=512)
        return out
