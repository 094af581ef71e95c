import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width: int, *, bias: bool = True):
        super().__init__()
        self.gain = nn.Parameter(torch.randn(width))
        self.offset = nn.Parameter(torch.randn(width)) if bias else None

    def forward(self, x):
        y = x * self.gain
        return y if self.offset is None else y + self.offset


def get_inputs():
    device = torch.device("cuda")
    return [torch.randn(14, 22, device=device)]


def get_init_inputs():
    return [[22], {"bias": True}]


if __name__ == "__main__":
    model = Model(22, bias=True).cuda()
    print(model(*get_inputs()))
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gain_offset(x, g, o, y, N, HAS_OFFSET: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * N + i, mask=i < N) * tl.load(g + i, mask=i < N)
    if HAS_OFFSET:
        v += tl.load(o + i, mask=i < N)
    tl.store(y + row * N + i, v, mask=i < N)


class ModelNew(nn.Module):
    def __init__(self, width: int, *, bias: bool = True):
        super().__init__()
        self.gain = nn.Parameter(torch.randn(width))
        if bias:
            self.offset = nn.Parameter(torch.randn(width))
        else:
            self.register_parameter("offset", None)

    def forward(self, x):
        y = torch.empty_like(x)
        has = self.offset is not None
        gain_offset[(x.shape[0],)](x, self.gain, self.offset if has else self.gain, y, x.shape[1], has, BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
