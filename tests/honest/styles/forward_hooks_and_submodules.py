import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(d))

    def forward(self, x):
        return torch.relu(x * self.scale) + x


def get_inputs():
    return [torch.randn(16, 30)]


def get_init_inputs():
    return [30]
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled_relu_add(x, s, y, N, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + r * N + i, mask=i < N)
    tl.store(y + r * N + i, tl.maximum(v * tl.load(s + i, mask=i < N), 0.0) + v, mask=i < N)


class Base(nn.Module):
    def prepare(self, x):
        return x if x.is_contiguous() else x.contiguous()

    def compute(self, x):
        raise NotImplementedError

    def forward(self, x):
        return self.compute(self.prepare(x))


class ModelNew(Base):
    def __init__(self, d):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(d))
        self.calls = 0
        self.register_forward_pre_hook(self._count)

    def _count(self, module, args):
        self.calls += 1

    def compute(self, x):
        y = torch.empty_like(x)
        scaled_relu_add[(x.shape[0],)](x, self.scale, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
