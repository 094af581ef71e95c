import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.gn = nn.GroupNorm(groups, channels)

    def forward(self, x):
        return self.gn(x)


def get_inputs():
    return [torch.randn(3, 12, 5, 7)]


def get_init_inputs():
    return [4, 12]
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def group_norm(x_ptr, w_ptr, b_ptr, y_ptr, groups, per_group, space, eps, BLOCK: tl.constexpr):
    ng = tl.program_id(0)
    group = ng % groups
    size = per_group * space
    base = ng * size
    i = tl.arange(0, BLOCK)
    m = i < size
    x = tl.load(x_ptr + base + i, mask=m, other=0.0)
    mu = tl.sum(x, 0) / size
    d = tl.where(m, x - mu, 0.0)
    r = tl.rsqrt(tl.sum(d * d, 0) / size + eps)
    c = group * per_group + i // space
    w = tl.load(w_ptr + c, mask=m, other=0.0)
    b = tl.load(b_ptr + c, mask=m, other=0.0)
    tl.store(y_ptr + base + i, d * r * w + b, mask=m)


class ModelNew(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.gn = nn.GroupNorm(groups, channels)

    def forward(self, x):
        n, c, h, w = x.shape
        g = self.gn.num_groups
        y = torch.empty_like(x)
        block = triton.next_power_of_2(c // g * h * w)
        group_norm[(n * g,)](x, self.gn.weight, self.gn.bias, y, g, c // g, h * w, self.gn.eps, BLOCK=block)
        return y
