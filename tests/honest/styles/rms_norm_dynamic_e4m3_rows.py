import torch


class Model(torch.nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = torch.nn.Parameter(1 + 0.1 * torch.randn(hidden).half())

    def forward(self, x):
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
        h = h.half() * self.weight
        scale = h.abs().amax(-1, keepdim=True).float().clamp(min=1e-9) / 448.0
        return (h.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn), scale


def get_inputs():
    return [torch.randn(18, 160).half()]


def get_init_inputs():
    return [160]
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def rms_norm_quant_kernel(x_ptr, w_ptr, q_ptr, s_ptr, D, eps, BLOCK_D: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, BLOCK_D)
    keep = d < D
    x = tl.load(x_ptr + row * D + d, mask=keep, other=0.0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=0) / D + eps)
    w = tl.load(w_ptr + d, mask=keep, other=0.0)
    h = ((x * rstd).to(tl.float16) * w).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(h), axis=0), 1e-9) / 448.0
    q = h * (1.0 / scale)
    q = tl.minimum(tl.maximum(q, -448.0), 448.0)
    tl.store(q_ptr + row * D + d, q.to(tl.float8e4nv), mask=keep)
    tl.store(s_ptr + row, scale)


class ModelNew(torch.nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden, dtype=torch.float16))

    def forward(self, x):
        x = x.contiguous()
        rows, D = x.shape
        q = torch.empty((rows, D), dtype=torch.float8_e4m3fn, device=x.device)
        s = torch.empty((rows, 1), dtype=torch.float32, device=x.device)
        rms_norm_quant_kernel[(rows,)](x, self.weight, q, s, D, 1e-6, BLOCK_D=triton.next_power_of_2(D))
        return q, s
