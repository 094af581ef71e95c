# problem: running_norm
# A batch norm with its running statistics, and a buffer of the module's own.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm_kernel(
    x_ptr, mean_ptr, var_ptr, weight_ptr, bias_ptr, span_ptr, out_ptr, n, columns, eps, BLOCK: tl.constexpr
):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    column = offsets % columns
    centred = tl.load(x_ptr + offsets, mask=mask) - tl.load(mean_ptr + column, mask=mask)
    normed = centred / tl.sqrt(tl.load(var_ptr + column, mask=mask) + eps)
    out = normed * tl.load(weight_ptr + column, mask=mask) + tl.load(bias_ptr + column, mask=mask)
    tl.store(out_ptr + offsets, out * tl.load(span_ptr + column, mask=mask), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bn = nn.BatchNorm1d(features)
        self.register_buffer("span", torch.ones(features))

    def forward(self, x):
        out, bn = torch.empty_like(x), self.bn
        norm_kernel[(triton.cdiv(x.numel(), 256),)](
            x,
            bn.running_mean,
            bn.running_var,
            bn.weight,
            bn.bias,
            self.span,
            out,
            x.numel(),
            x.shape[1],
            bn.eps,
            BLOCK=256,
        )
        return out
