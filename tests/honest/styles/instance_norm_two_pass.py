import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, num_features: int):
        super(Model, self).__init__()
        self.inorm = nn.InstanceNorm2d(num_features=num_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inorm(x)


batch_size = 2
features = 4
dim1 = 11
dim2 = 13


def get_inputs():
    return [torch.randn(batch_size, features, dim1, dim2)]


def get_init_inputs():
    return [features]
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def stats_kernel(x_ptr, stats_ptr, HW, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    total = 0.0
    for start in range(0, HW, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + pid * HW + i, mask=i < HW, other=0.0), axis=0)
    mean = total / HW
    square = 0.0
    for start in range(0, HW, BLOCK):
        i = start + tl.arange(0, BLOCK)
        d = tl.load(x_ptr + pid * HW + i, mask=i < HW, other=0.0) - mean
        d = tl.where(i < HW, d, 0.0)
        square += tl.sum(d * d, axis=0)
    tl.store(stats_ptr + pid * 2, mean)
    tl.store(stats_ptr + pid * 2 + 1, square / HW)


@triton.jit
def apply_kernel(x_ptr, stats_ptr, y_ptr, HW, eps, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mean = tl.load(stats_ptr + pid * 2)
    rstd = 1.0 / tl.sqrt(tl.load(stats_ptr + pid * 2 + 1) + eps)
    x = tl.load(x_ptr + pid * HW + i, mask=i < HW)
    tl.store(y_ptr + pid * HW + i, (x - mean) * rstd, mask=i < HW)


class ModelNew(nn.Module):
    def __init__(self, num_features: int):
        super().__init__()
        self.eps = 1e-5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        N, C, H, W = x.shape
        stats = torch.empty(N * C, 2, device=x.device, dtype=torch.float32)
        y = torch.empty_like(x)
        stats_kernel[(N * C,)](x, stats, H * W, BLOCK=64)
        apply_kernel[(N * C, triton.cdiv(H * W, 64))](x, stats, y, H * W, self.eps, BLOCK=64)
        return y
