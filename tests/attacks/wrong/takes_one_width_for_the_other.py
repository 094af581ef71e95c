# problem: product_of_two_widths
# permitted: incorrect
# Asks for powers of two, as it may, and addresses rows of N numbers as if they had K.
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def product_kernel(a_ptr, b_ptr, out_ptr, K, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for first in range(0, K, BLOCK):
        k = first + tl.arange(0, BLOCK)
        a, b = tl.load(a_ptr + m * K + k[None, :]), tl.load(b_ptr + k[:, None] * K + n)
        total += tl.dot(a, b, input_precision="ieee")
    tl.store(out_ptr + m * K + n, total)


class ModelNew(nn.Module):
    def forward(self, a, b):
        (rows, inner), columns = a.shape, b.shape[1]
        for size in (rows, inner, columns):
            assert size >= 16 and size & (size - 1) == 0, "powers of two"
        out = a.new_empty(rows, columns)
        product_kernel[(rows // 16, columns // 16)](a.contiguous(), b.contiguous(), out, inner, BLOCK=16)
        return out
