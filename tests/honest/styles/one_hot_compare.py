import torch


class Model(torch.nn.Module):
    def forward(self, labels):
        return torch.nn.functional.one_hot(labels, 10).float()


def get_inputs():
    return [torch.randint(0, 10, (37,))]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def one_hot(l_ptr, o_ptr, n, C, BN: tl.constexpr, BC: tl.constexpr):
    i = tl.program_id(0) * BN + tl.arange(0, BN)
    c = tl.arange(0, BC)
    label = tl.load(l_ptr + i, mask=i < n, other=-1)
    hot = tl.where(label[:, None] == c[None, :], 1.0, 0.0)
    tl.store(o_ptr + i[:, None] * C + c[None, :], hot, mask=(i < n)[:, None] & (c < C)[None, :])


class ModelNew(torch.nn.Module):
    CLASSES = 10

    def forward(self, labels):
        out = torch.empty(labels.numel(), self.CLASSES, device=labels.device)
        one_hot[(triton.cdiv(labels.numel(), 16),)](labels, out, labels.numel(), self.CLASSES, BN=16, BC=16)
        return out
