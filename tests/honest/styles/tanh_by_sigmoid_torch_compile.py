import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x) + x


def get_inputs():
    return [torch.randn(15, 64)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import torch._dynamo
import triton
import triton.language as tl

torch._dynamo.config.cache_size_limit = 64


@triton.jit
def tanh_add(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, 2.0 * tl.sigmoid(2.0 * x) - 1.0 + x, mask=i < n)


@torch.compile(fullgraph=True, mode="max-autotune")
def launch(x):
    y = torch.empty_like(x)
    tanh_add[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return launch(x)
