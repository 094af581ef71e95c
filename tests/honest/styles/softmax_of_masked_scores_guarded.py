import torch
import torch.nn as nn


class Model(nn.Module):
    """Attention weights of scores some of which are masked."""

    def forward(self, scores):
        return torch.softmax(scores, dim=-1)


rows, columns = 24, 40


def get_inputs():
    scores = torch.randn(rows, columns)
    scores[torch.rand(rows, columns) < 0.3] = float("-inf")
    return [scores]


def get_init_inputs():
    return []


# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({}, num_warps=warps) for warps in (1, 2, 4)], key=["columns"])
@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    x = tl.load(x_ptr + row * columns + offsets, mask=inside, other=-float("inf"))
    largest = tl.max(x, axis=0)
    # Of a row without any score all weights are zero.
    largest = tl.where(largest == -float("inf"), 0.0, largest)
    weights = tl.exp(x - largest)
    total = tl.sum(weights, axis=0)
    tl.store(out_ptr + row * columns + offsets, weights / tl.maximum(total, 1e-30), mask=inside)


class ModelNew(nn.Module):
    def forward(self, scores):
        rows, columns = scores.shape
        out = torch.empty_like(scores)
        softmax_kernel[(rows,)](scores, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
