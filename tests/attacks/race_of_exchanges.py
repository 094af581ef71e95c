# problem: product
# device: cpu
# permitted: undecided
# Each program reads the product so far, and exchanges it for the next one.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def product_kernel(x_ptr, out_ptr, columns):
    row = tl.program_id(0)
    factor = tl.load(x_ptr + row * columns + tl.program_id(1))
    before = tl.atomic_add(out_ptr + row, factor * 0)
    tl.atomic_xchg(out_ptr + row, before * factor % 65521)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.ones(rows, dtype=torch.int64, device=x.device)
        product_kernel[(rows, columns)](x, out, columns)
        return out
