import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.sigmoid(x.permute(2, 0, 1))


def get_inputs():
    return [torch.randn(6, 7, 20)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def sigmoid3(x, y, D1, D2, s0, s1, s2, BLOCK: tl.constexpr):
    i0, i1 = tl.program_id(0), tl.program_id(1)
    i2 = tl.arange(0, BLOCK)
    v = tl.load(x + i0 * s0 + i1 * s1 + i2 * s2, mask=i2 < D2, other=0.0)
    tl.store(y + (i0 * D1 + i1) * D2 + i2, tl.sigmoid(v), mask=i2 < D2)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        view = x.permute(2, 0, 1)
        y = torch.empty(view.shape, device=view.device, dtype=view.dtype)
        sigmoid3[view.shape[:2]](view, y, *view.shape[1:], *view.stride(), BLOCK=triton.next_power_of_2(view.shape[2]))
        return y
