import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.silu(x)


def get_inputs():
    return [torch.randn(7, 31, 5)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch, triton, triton.language as tl
@triton.jit
def k(X, Y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B); x = tl.load(X + i, i < n, 0.); tl.store(Y + i, x * tl.sigmoid(x), i < n)
class ModelNew(torch.nn.Module):
    forward = lambda self, x: (y := torch.empty_like(x), k[(-(-x.numel() // 128),)](x, y, x.numel(), 128))[0]
