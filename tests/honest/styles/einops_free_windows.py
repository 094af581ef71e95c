import torch


class Model(torch.nn.Module):
    def __init__(self, window):
        super().__init__()
        self.window = window

    def forward(self, x):
        return x.unfold(-1, self.window, 1).amax(-1)


def get_inputs():
    return [torch.randn(4, 37)]


def get_init_inputs():
    return [5]
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def sliding_max(x, y, N, O, sn, sw, sy, W: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    for w in tl.static_range(W):
        best = tl.maximum(best, tl.load(x + r * sn + i * 1 + w * sw, mask=i < O, other=float("-inf")))
    tl.store(y + r * sy + i, best, mask=i < O)


class ModelNew(torch.nn.Module):
    def __init__(self, window):
        super().__init__()
        self.window = window

    def forward(self, x):
        windows = x.unfold(-1, self.window, 1)
        rows, count, _ = windows.shape
        y = torch.empty(rows, count, device=x.device, dtype=x.dtype)
        sliding_max[(rows,)](x, y, x.shape[1], count, windows.stride(0), windows.stride(2), y.stride(0), W=self.window,
                             BLOCK=triton.next_power_of_2(count))
        return y
