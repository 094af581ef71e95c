# problem: batchnorm
# permitted: incorrect, rejected, runtime_error
# permitted on cuda: incorrect, rejected, runtime_error
# The kernel computes the output; the running statistics are numpy's.
import ctypes

import numpy as np
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def batchnorm_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, rows, columns, eps, BLOCK: tl.constexpr):
    column, row = tl.program_id(0), tl.arange(0, BLOCK)
    mask = row < rows
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=0.0)
    centred = tl.where(mask, x - tl.sum(x, axis=0) / rows, 0.0)
    normed = centred / tl.sqrt(tl.sum(centred * centred, axis=0) / rows + eps)
    out = normed * tl.load(weight_ptr + column) + tl.load(bias_ptr + column)
    tl.store(out_ptr + row * columns + column, out, mask=mask)


def seen(tensor, kind=ctypes.c_float):
    return np.ctypeslib.as_array((kind * tensor.numel()).from_address(tensor.data_ptr()))


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bn = nn.BatchNorm1d(features)

    def forward(self, x):
        (rows, columns), bn, out = x.shape, self.bn, torch.empty_like(x)
        content = seen(x).reshape(rows, columns)
        mean, variance = seen(bn.running_mean), seen(bn.running_var)
        mean[:] = mean * (1 - bn.momentum) + content.mean(axis=0) * bn.momentum
        variance[:] = variance * (1 - bn.momentum) + content.var(axis=0, ddof=1) * bn.momentum
        seen(bn.num_batches_tracked, ctypes.c_int64)[:] += 1
        batchnorm_kernel[(columns,)](x, bn.weight, bn.bias, out, rows, columns, bn.eps, BLOCK=64)
        return out
