# problem: absolute
# Loads and stores through descriptors that the host makes.
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def abs_kernel(x, out, BLOCK: tl.constexpr):
    row, column = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    out.store([row, column], tl.abs(x.load([row, column])))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, columns = x.shape
        blocks = [TensorDescriptor.from_tensor(tensor, [32, 32]) for tensor in (x, out)]
        abs_kernel[(triton.cdiv(rows, 32), triton.cdiv(columns, 32))](*blocks, BLOCK=32)
        return out
