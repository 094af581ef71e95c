import torch
import torch.nn.functional as F


class Model(torch.nn.Module):
    def forward(self, x):
        p = F.pad(x, (1, 1), mode="reflect")
        return 0.25 * p[..., :-2] + 0.5 * p[..., 1:-1] + 0.25 * p[..., 2:]


def get_inputs():
    return [torch.randn(2, 3, 40)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def blur(p, y, L, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    base = p + r * (L + 2) + i
    m = i < L
    v = 0.25 * tl.load(base, mask=m) + 0.5 * tl.load(base + 1, mask=m) + 0.25 * tl.load(base + 2, mask=m)
    tl.store(y + r * L + i, v, mask=m)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        padded = F.pad(x, (1, 1), mode="reflect")
        y = torch.empty_like(x)
        blur[(x.shape[0] * x.shape[1],)](padded, y, x.shape[2], BLOCK=triton.next_power_of_2(x.shape[2]))
        return y
