import torch
import torch.nn as nn
class Model(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)
def get_inputs():
    return [torch.randn(3, 5, 17)]
def get_init_inputs():
    return []
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


def quick_gelu(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    x = tl.load(x_ptr + i, mask=m)
    tl.store(y_ptr + i, x * tl.sigmoid(1.702 * x), mask=m)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel = triton.jit(quick_gelu)

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        self.kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
        return y
