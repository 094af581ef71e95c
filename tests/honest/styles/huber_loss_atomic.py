import torch
import torch.nn.functional as F


class Model(torch.nn.Module):
    def forward(self, a, b):
        return F.smooth_l1_loss(a, b)


def get_inputs():
    return [torch.randn(40, 30), torch.randn(40, 30)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def huber(a_ptr, b_ptr, out_ptr, n, inv_n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.abs(tl.load(a_ptr + i, mask=i < n, other=0.0) - tl.load(b_ptr + i, mask=i < n, other=0.0))
    loss = tl.where(d < 1.0, 0.5 * d * d, d - 0.5)
    tl.atomic_add(out_ptr, tl.sum(loss) * inv_n)


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        total = torch.zeros(1, dtype=torch.float32, device=a.device)
        huber[(triton.cdiv(a.numel(), 512),)](a, b, total, a.numel(), 1.0 / a.numel(), BLOCK=512)
        return total.squeeze(0)
