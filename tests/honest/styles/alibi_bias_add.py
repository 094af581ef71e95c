import torch


class Model(torch.nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, scores):
        T = scores.shape[-1]
        slopes = torch.tensor([2.0 ** (-8.0 * (h + 1) / self.heads) for h in range(self.heads)], device=scores.device)
        distance = torch.arange(T, device=scores.device)[None, :] - torch.arange(T, device=scores.device)[:, None]
        return scores + slopes[:, None, None] * distance


def get_inputs():
    return [torch.randn(2, 4, 12, 12)]


def get_init_inputs():
    return [4]
# ----- candidate -----
"""Slopes are made by the host from plain numbers in each call."""
import torch
import triton
import triton.language as tl


@triton.jit
def alibi(s_ptr, slope_ptr, o_ptr, H, T, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    h = (row // T) % H
    q = row % T
    k = tl.arange(0, BLOCK)
    slope = tl.load(slope_ptr + h)
    s = tl.load(s_ptr + row * T + k, mask=k < T)
    tl.store(o_ptr + row * T + k, s + slope * (k - q).to(tl.float32), mask=k < T)


class ModelNew(torch.nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, scores):
        B, H, T, _ = scores.shape
        slopes = torch.tensor([2.0 ** (-8.0 * (h + 1) / self.heads) for h in range(self.heads)], device=scores.device)
        out = torch.empty_like(scores)
        alibi[(B * H * T,)](scores, slopes, out, H, T, BLOCK=triton.next_power_of_2(T))
        return out
