import torch
import torch.nn as nn
class Model(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.ln = nn.LayerNorm(dim, elementwise_affine=False)
    def forward(self, x):
        return self.ln(x)
def get_inputs():
    return [torch.randn(12, 60)]
def get_init_inputs():
    return [60]
# ----- candidate -----
import torch
import torch.nn as nn


def _get_kernels():
    import triton
    import triton.language as tl

    @triton.jit
    def ln_fwd(x_ptr, y_ptr, stride, N, eps, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        cols = tl.arange(0, BLOCK)
        mask = cols < N
        x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
        mean = tl.sum(x, axis=0) / N
        xc = tl.where(mask, x - mean, 0.0)
        var = tl.sum(xc * xc, axis=0) / N
        tl.store(y_ptr + row * stride + cols, xc / tl.sqrt(var + eps), mask=mask)

    return ln_fwd, triton.next_power_of_2


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        ln_fwd, npo2 = _get_kernels()
        x = x.contiguous()
        y = torch.empty_like(x)
        rows = x.numel() // self.dim
        ln_fwd[(rows,)](x, y, self.dim, self.dim, 1e-5, BLOCK=npo2(self.dim), num_warps=4)
        return y
