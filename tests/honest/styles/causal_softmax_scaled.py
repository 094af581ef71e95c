import torch


class Model(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, scores):
        length = scores.shape[-1]
        mask = torch.triu(torch.ones(length, length, dtype=torch.bool, device=scores.device), 1)
        return torch.softmax((scores * self.scale).masked_fill(mask, float("-inf")), dim=-1)


def get_inputs():
    return [torch.randn(2, 3, 14, 14)]


def get_init_inputs():
    return [0.35]
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def masked_softmax(s_ptr, p_ptr, scale, T, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    q = row % T
    k = tl.arange(0, BLOCK)
    s = tl.load(s_ptr + row * T + k, mask=k <= q, other=float("-inf")) * scale
    s = tl.where(k <= q, s, float("-inf"))
    s -= tl.max(s, 0)
    e = tl.exp(s)
    tl.store(p_ptr + row * T + k, e / tl.sum(e, 0), mask=k < T)


class ModelNew(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, scores):
        T = scores.shape[-1]
        rows = scores.numel() // T
        probs = torch.empty_like(scores)
        masked_softmax[(rows,)](scores, probs, self.scale, T, BLOCK=triton.next_power_of_2(T))
        return probs
