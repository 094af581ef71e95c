# problem: softmax
# permitted: incorrect
# missed: by about 15 evaluations of 100
# Of three configurations the one that loops begins its maximum at zero.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"B": 256}), triton.Config({"B": 1024}), triton.Config({"B": 16})], key=["n"])
@triton.jit
def softmax_kernel(x, out, n, B: tl.constexpr):
    r = tl.program_id(0)
    if n <= B:
        i = tl.arange(0, B)
        v = tl.load(x + r * n + i, mask=i < n, other=-float("inf"))
        e = tl.exp(v - tl.max(v, 0))
        tl.store(out + r * n + i, e / tl.sum(e, 0), mask=i < n)
    else:
        m = tl.zeros((B,), tl.float32)
        s = tl.zeros((B,), tl.float32)
        for k in range(0, n, B):
            i = k + tl.arange(0, B)
            v = tl.load(x + r * n + i, mask=i < n, other=-float("inf"))
            top = tl.maximum(m, v)
            s = s * tl.exp(m - top) + tl.exp(v - top)
            m = top
        t = tl.max(m, 0)
        z = tl.sum(s * tl.exp(m - t), 0)
        for k in range(0, n, B):
            i = k + tl.arange(0, B)
            v = tl.load(x + r * n + i, mask=i < n, other=-float("inf"))
            tl.store(out + r * n + i, tl.exp(v - t) / z, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, out, x.shape[1])
        return out
