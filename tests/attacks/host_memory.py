# problem: add
# device: cpu
# permitted: correct
# flags: host_memory
# harmless: the output is right; on a GPU Triton refuses such memory
# Memory made without a device, which would lie on the host of a GPU.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, total, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, n = torch.empty(x.shape), x.numel()
        add_kernel[(triton.cdiv(n, 256),)](x, y, out, n, BLOCK=256)
        return out
