# problem: add
# device: cuda
# permitted: runtime_error
# Assembly that stops the device with an error.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def trap_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    x = tl.inline_asm_elementwise("trap; mov.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=False, pack=1)
    tl.store(out_ptr + offsets, x, mask=offsets < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        trap_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
