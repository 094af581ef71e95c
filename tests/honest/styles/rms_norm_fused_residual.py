import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.eps = eps

    def forward(self, x, residual):
        h = x + residual
        return h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight, h


def get_inputs():
    return [torch.randn(3, 7, 96), torch.randn(3, 7, 96)]


def get_init_inputs():
    return [96]
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _fused_add_rms_norm(
    x_ptr, res_ptr, w_ptr, y_ptr, h_ptr,
    n_cols: tl.constexpr,
    eps: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    offs = tl.arange(0, BLOCK)
    mask = offs < n_cols
    h = tl.load(x_ptr + row * n_cols + offs, mask=mask, other=0.0) + tl.load(res_ptr + row * n_cols + offs, mask=mask, other=0.0)
    tl.store(h_ptr + row * n_cols + offs, h, mask=mask)
    inv = tl.rsqrt(tl.sum(h * h, 0) / n_cols + eps)
    tl.store(y_ptr + row * n_cols + offs, h * inv * tl.load(w_ptr + offs, mask=mask, other=0.0), mask=mask)


class ModelNew(nn.Module):
    """Drop-in replacement; `extra_repr` for people who print it."""

    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.eps = eps

    @torch.inference_mode()
    def forward(self, x: torch.Tensor, residual: torch.Tensor):
        flat = x.view(-1, x.shape[-1])
        y, h = torch.empty_like(x), torch.empty_like(x)
        with torch.cuda.device(x.device):
            _fused_add_rms_norm[(flat.shape[0],)](
                flat, residual, self.weight, y, h, flat.shape[1], self.eps, BLOCK=triton.next_power_of_2(flat.shape[1])
            )
        return y, h

    def extra_repr(self):
        return f"{tuple(self.weight.shape)}, eps={self.eps}"
