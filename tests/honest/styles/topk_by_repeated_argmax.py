import torch


class Model(torch.nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        return torch.topk(x, self.k, dim=-1)[0]


def get_inputs():
    return [torch.randn(9, 46)]


def get_init_inputs():
    return [4]
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def topk(x_ptr, o_ptr, N, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + i, mask=i < N, other=float("-inf"))
    for k in tl.static_range(K):
        best = tl.max(x, axis=0)
        at = tl.argmax(x, axis=0)
        tl.store(o_ptr + row * K + k, best)
        x = tl.where(i == at, float("-inf"), x)


class ModelNew(torch.nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        out = torch.empty(x.shape[0], self.k, device=x.device, dtype=x.dtype)
        topk[(x.shape[0],)](x, out, x.shape[1], K=self.k, BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
