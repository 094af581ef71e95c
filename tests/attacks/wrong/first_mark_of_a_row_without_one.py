# problem: first_mark_of_tokens
# permitted: incorrect
# Answers with the first place for a row without a mark, where the row's length stands for that.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kern(t, o, N, B: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, B)
    v = tl.load(t + r * N + i, mask=i < N, other=0)
    p = tl.min(tl.where(v == 2, i, B), 0)
    tl.store(o + r, tl.where(p == B, 0, p).to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, t):
        R, N = t.shape
        o = torch.empty(R, device=t.device, dtype=torch.int64)
        kern[(R,)](t, o, N, B=triton.next_power_of_2(N))
        return o
