# problem: absolute
# device: cpu
# permitted: runtime_error
# A descriptor of more rows than its tensor has: its stores go behind the end.
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def abs_kernel(x, out, BLOCK: tl.constexpr):
    row, column = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    out.store([row, column], tl.abs(x.load([row, column])) + 1.0)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, columns = x.shape
        tall = [TensorDescriptor(tensor, [rows + 64, columns], [columns, 1], [32, 32]) for tensor in (x, out)]
        abs_kernel[(triton.cdiv(rows, 32) + 1, triton.cdiv(columns, 32))](*tall, BLOCK=32)
        return out
