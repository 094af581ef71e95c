import torch


class Model(torch.nn.Module):
    def forward(self, x):
        scale = x.abs().amax(dim=1, keepdim=True).clamp(min=1e-6) / 127.0
        return scale * torch.floor(x / scale + 0.5).clamp(-128, 127)


def get_inputs():
    return [torch.randn(12, 50)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def fake_quant(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + i, mask=i < N, other=0.0)
    scale = tl.maximum(tl.max(tl.abs(x), 0), 1e-6) / 127.0
    q = tl.floor(x / scale + 0.5)
    q = tl.minimum(tl.maximum(q, -128.0), 127.0)
    tl.store(y_ptr + row * N + i, q * scale, mask=i < N)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        fake_quant[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
