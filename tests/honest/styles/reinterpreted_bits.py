import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2 + 1


def get_inputs():
    return [torch.randn(20, 33)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def doubled_plus_one(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n) * 2 + 1, mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        o = torch.empty(x.shape, dtype=torch.int32, device=x.device)
        bits, n = x.view(torch.int32), x.numel()
        out = triton.TensorWrapper(o, tl.float32)
        doubled_plus_one[(triton.cdiv(n, 128),)](triton.reinterpret(bits, tl.float32), out, n, B=128)
        return o.view(torch.float32)
