import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """Sobel gradient magnitude; the two filters are buffers with the well-known numbers."""

    def __init__(self):
        super().__init__()
        gx = torch.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]])
        self.register_buffer("gx", gx[None, None])
        self.register_buffer("gy", gx.t().contiguous()[None, None])

    def forward(self, x):
        a = F.conv2d(x, self.gx, padding=1)
        b = F.conv2d(x, self.gy, padding=1)
        return torch.sqrt(a * a + b * b + 1e-6)


def get_inputs():
    return [torch.randn(2, 1, 18, 21)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _at(p, y, x, H, W, m):
    return tl.load(p + y * W + x, mask=m & (y >= 0) & (y < H) & (x >= 0) & (x < W), other=0.0)


@triton.jit
def sobel_kernel(x_ptr, y_ptr, H, W, BLOCK: tl.constexpr):
    # Sobel taps are fixed, so they are folded into adds: no filter is loaded
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    b = tl.program_id(1)
    m = o < H * W
    y = o // W
    x = o % W
    p = x_ptr + b * H * W
    tl_ = _at(p, y - 1, x - 1, H, W, m)
    tc = _at(p, y - 1, x, H, W, m)
    tr = _at(p, y - 1, x + 1, H, W, m)
    ml = _at(p, y, x - 1, H, W, m)
    mr = _at(p, y, x + 1, H, W, m)
    bl = _at(p, y + 1, x - 1, H, W, m)
    bc = _at(p, y + 1, x, H, W, m)
    br = _at(p, y + 1, x + 1, H, W, m)
    gx = (tr - tl_) + 2.0 * (mr - ml) + (br - bl)
    gy = (bl - tl_) + 2.0 * (bc - tc) + (br - tr)
    tl.store(y_ptr + b * H * W + o, tl.sqrt(gx * gx + gy * gy + 1e-6), mask=m)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        B, C, H, W = x.shape
        assert C == 1
        y = torch.empty_like(x)
        sobel_kernel[(triton.cdiv(H * W, 128), B)](x, y, H, W, BLOCK=128)
        return y
