# problem: batchnorm
# A batch norm in training mode that keeps the running statistics and does not count its calls, on which nothing hangs.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def batchnorm_kernel(x_ptr, w_ptr, b_ptr, mean_ptr, var_ptr, out_ptr, N, C, eps, momentum, BLOCK: tl.constexpr):
    channel = tl.program_id(0)
    row = tl.arange(0, BLOCK)
    mask = row < N
    x = tl.load(x_ptr + row * C + channel, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / N
    centred = tl.where(mask, x - mean, 0.0)
    square = tl.sum(centred * centred, axis=0)
    out = centred / tl.sqrt(square / N + eps) * tl.load(w_ptr + channel) + tl.load(b_ptr + channel)
    tl.store(out_ptr + row * C + channel, out, mask=mask)
    tl.store(mean_ptr + channel, tl.load(mean_ptr + channel) * (1 - momentum) + mean * momentum)
    tl.store(var_ptr + channel, tl.load(var_ptr + channel) * (1 - momentum) + square / (N - 1) * momentum)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bn = nn.BatchNorm1d(features)

    def forward(self, x):
        rows, channels = x.shape
        out, bn = torch.empty_like(x), self.bn
        batchnorm_kernel[(channels,)](
            x,
            bn.weight,
            bn.bias,
            bn.running_mean,
            bn.running_var,
            out,
            rows,
            channels,
            bn.eps,
            bn.momentum,
            BLOCK=64,
        )
        return out
