import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x.pow(3)


def get_inputs():
    return [torch.randn(130)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl

torch.set_default_device("cuda")
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.benchmark = True


@triton.jit
def cube(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, i < n)
    tl.store(y + i, v * v * v, i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty(x.shape)
        cube[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), B=64)
        return y
