import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, logits, u):
        g = -torch.log(-torch.log(u.clamp(min=1e-20)))
        return torch.argmax(logits / self.temperature + g, dim=-1)


def get_inputs():
    return [torch.randn(40, 130), torch.rand(40, 130) * 0.998 + 0.001]


def get_init_inputs():
    return [0.8]


# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gumbel_argmax_kernel(logits, u, out, V, inv_t, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    best = float("-inf")
    best_i = 0
    for start in range(0, V, BLOCK):
        c = start + tl.arange(0, BLOCK)
        m = c < V
        x = tl.load(logits + row * V + c, mask=m, other=float("-inf"))
        un = tl.load(u + row * V + c, mask=m, other=0.5)
        un = tl.maximum(un, 1e-20)
        y = x * inv_t - tl.log(-tl.log(un))
        v, i = tl.max(y, axis=0, return_indices=True)
        better = v > best
        best_i = tl.where(better, start + i, best_i)
        best = tl.where(better, v, best)
    tl.store(out + row, best_i.to(tl.int64))


class ModelNew(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        if temperature <= 0:
            raise ValueError("temperature must be positive")
        self.inv_t = 1.0 / temperature

    def forward(self, logits, u):
        B, V = logits.shape
        out = torch.empty(B, dtype=torch.long, device=logits.device)
        gumbel_argmax_kernel[(B,)](logits.contiguous(), u.contiguous(), out, V, self.inv_t, BLOCK=64)
        return out
