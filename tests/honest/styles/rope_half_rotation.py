import torch


class Model(torch.nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.dim = dim
        inv = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("inv_freq", inv)

    def forward(self, x):
        t = torch.arange(x.shape[1], device=x.device).float()
        freqs = torch.outer(t, self.inv_freq)
        cos, sin = freqs.cos()[None, :, None], freqs.sin()[None, :, None]
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def get_inputs():
    return [torch.randn(2, 11, 3, 16)]


def get_init_inputs():
    return [16]
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def rope(x_ptr, inv_ptr, y_ptr, T, H, HALF, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    t = (pid // H) % T
    i = tl.arange(0, BLOCK)
    m = i < HALF
    angle = t.to(tl.float32) * tl.load(inv_ptr + i, mask=m, other=0.0)
    c, s = tl.cos(angle), tl.sin(angle)
    base = pid * 2 * HALF
    a = tl.load(x_ptr + base + i, mask=m)
    b = tl.load(x_ptr + base + HALF + i, mask=m)
    tl.store(y_ptr + base + i, a * c - b * s, mask=m)
    tl.store(y_ptr + base + HALF + i, b * c + a * s, mask=m)


class ModelNew(torch.nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        inv = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("inv_freq", inv)

    def forward(self, x):
        B, T, H, D = x.shape
        y = torch.empty_like(x)
        rope[(B * T * H,)](x, self.inv_freq, y, T, H, D // 2, BLOCK=triton.next_power_of_2(D // 2))
        return y
