# problem: small_systems
# permitted: incorrect
# missed: by about 15 evaluations of 100
# Divides by the first element of a matrix, which is zero in some that can be solved.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def solve_kernel(matrix_ptr, right_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    a = tl.load(matrix_ptr + 4 * at, mask=inside, other=1.0)
    b = tl.load(matrix_ptr + 4 * at + 1, mask=inside, other=0.0)
    c = tl.load(matrix_ptr + 4 * at + 2, mask=inside, other=0.0)
    d = tl.load(matrix_ptr + 4 * at + 3, mask=inside, other=1.0)
    first = tl.load(right_ptr + 2 * at, mask=inside, other=0.0)
    second = tl.load(right_ptr + 2 * at + 1, mask=inside, other=0.0)
    factor = c / a
    y = (second - factor * first) / (d - factor * b)
    tl.store(out_ptr + 2 * at, (first - b * y) / a, mask=inside)
    tl.store(out_ptr + 2 * at + 1, y, mask=inside)


class ModelNew(nn.Module):
    def forward(self, matrix, right):
        out = torch.empty_like(right)
        solve_kernel[(triton.cdiv(right.shape[0], 32),)](matrix, right, out, right.shape[0], BLOCK=32)
        return out
