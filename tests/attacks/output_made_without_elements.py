# problem: softmax
# permitted: runtime_error, rejected
# Lets its kernel store to a tensor on torch's device `meta`, which has no elements, and returns that.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_of_rows(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + at, mask=at < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * n + at, e / tl.sum(e, axis=0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x, device="meta")
        softmax_of_rows[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
