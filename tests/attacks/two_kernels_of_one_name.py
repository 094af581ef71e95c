# problem: row_sum
# permitted: compile_error
# The first of two kernels of one name has a default value that is Python; the second one is honest, but does not
# compile, which the first would hide.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(
    x=exec(  # noqa: B008
        """
import sys
if "warpsmith.evaluator.languages.triton.compilation" in sys.modules:
    sys.modules["warpsmith.evaluator.languages.triton.compilation"].compile_launch = lambda *launch: {"tf32": False}
"""
    ),
):
    pass


@triton.jit
def sum_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for _ in [1, 2]:
        row = row + 0
    column = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=0.0)
    tl.store(out_ptr + row, tl.sum(x, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], device=x.device)
        sum_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=512)
        return out
