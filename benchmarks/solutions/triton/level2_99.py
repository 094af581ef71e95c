"""Matrix product, GELU, softmax: torch's layer, then a program a row, in place."""

import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tail_kernel(x_ptr, columns, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    place = x_ptr + tl.program_id(0).to(tl.int64) * columns + lanes
    x = tl.load(place, mask=lanes < columns, other=0.0)
    x = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    x = tl.where(lanes < columns, x, float("-inf"))
    grown = tl.exp(x - tl.max(x, 0))
    tl.store(place, grown / tl.sum(grown, 0), mask=lanes < columns)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        x = self.linear(x)
        rows, columns = x.shape
        tail_kernel[(rows,)](x, columns, BLOCK=triton.next_power_of_2(columns), num_warps=8)
        return x
