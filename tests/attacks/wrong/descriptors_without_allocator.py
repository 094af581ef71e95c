# problem: absolute
# permitted: compile_error
# permitted on cuda: compile_error, runtime_error
# Descriptors need scratch memory, and a launch on a GPU fails where nobody has set an allocator for it.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def abs_kernel(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, shape=[rows, columns], strides=[columns, 1], block_shape=[BLOCK, BLOCK])
    out = tl.make_tensor_descriptor(out_ptr, shape=[rows, columns], strides=[columns, 1], block_shape=[BLOCK, BLOCK])
    row, column = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    out.store([row, column], tl.abs(x.load([row, column])))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, columns = x.shape
        abs_kernel[(triton.cdiv(rows, 32), triton.cdiv(columns, 32))](x, out, rows, columns, BLOCK=32)
        return out
