# problem: add
# permitted: runtime_error
# permitted on cuda: incorrect, runtime_error, compile_error, rejected
# Host-side tensor descriptors: this device cannot judge them, and says so.
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def add_kernel(x_desc, y_desc, out_desc, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS
    out_desc.store([row, 0], x_desc.load([row, 0]) + y_desc.load([row, 0]))


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        descriptors = [TensorDescriptor(t, list(t.shape), [128, 1], [8, 128]) for t in (x, y, out)]
        add_kernel[(triton.cdiv(x.shape[0], 8),)](*descriptors, ROWS=8)
        return out
