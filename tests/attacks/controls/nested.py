# problem: nested
# Outputs within outputs: a dict of a list of a tensor and a tuple, and a mask.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def both_kernel(x_ptr, y_ptr, sum_ptr, difference_ptr, product_ptr, larger_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x, y = tl.load(x_ptr + at, mask=mask), tl.load(y_ptr + at, mask=mask)
    tl.store(sum_ptr + at, x + y, mask=mask)
    tl.store(difference_ptr + at, x - y, mask=mask)
    tl.store(product_ptr + at, x * y, mask=mask)
    tl.store(larger_ptr + at, x > y, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        total, difference, product = (torch.empty_like(x) for _ in range(3))
        larger, n = torch.empty(x.shape, dtype=torch.bool, device=x.device), x.numel()
        both_kernel[(triton.cdiv(n, 128),)](x, y, total, difference, product, larger, n, BLOCK=128)
        return {"both": [total, (difference, product)], "larger": larger}
