# problem: dequantise
# Integers of 8 bits times a scale for each row.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_kernel(code_ptr, scale_ptr, out_ptr, n, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    code = tl.load(code_ptr + at, mask=mask).to(tl.float32)
    tl.store(out_ptr + at, code * tl.load(scale_ptr + at // columns, mask=mask), mask=mask)


class ModelNew(nn.Module):
    def forward(self, codes, scale):
        out, n = torch.empty(codes.shape, dtype=torch.float32, device=codes.device), codes.numel()
        scale_kernel[(triton.cdiv(n, 256),)](codes, scale, out, n, codes.shape[1], BLOCK=256)
        return out
