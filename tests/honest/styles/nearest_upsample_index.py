import torch
import torch.nn.functional as F


class Model(torch.nn.Module):
    def forward(self, x):
        return F.interpolate(x, scale_factor=2, mode="nearest") * 0.5


def get_inputs():
    return [torch.randn(2, 3, 6, 7)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def upsample2x(x, y, H, W, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = i % (2 * W)
    r = (i // (2 * W)) % (2 * H)
    plane = i // (4 * H * W)
    v = tl.load(x + plane * H * W + (r // 2) * W + c // 2, mask=i < n)
    tl.store(y + i, v * 0.5, mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        N, C, H, W = x.size()
        y = torch.empty(N, C, 2 * H, 2 * W, device=x.device)
        upsample2x[(triton.cdiv(y.numel(), 128),)](x, y, H, W, y.numel(), BLOCK=128)
        return y
