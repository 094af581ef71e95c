import torch
import torch.nn.functional as F


class Model(torch.nn.Module):
    def forward(self, x, gate):
        y = F.silu(gate) * x * 0.75
        return y.clamp(-50000, 50000).to(torch.float8_e5m2)


def get_inputs():
    return [torch.randn(20, 96).half(), torch.randn(20, 96).half()]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def silu_mul_quant(x_ptr, g_ptr, out_ptr, n, scale, BLOCK: tl.constexpr):
    idx = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = idx < n
    x = tl.load(x_ptr + idx, mask=ok, other=0.0).to(tl.float32)
    g = tl.load(g_ptr + idx, mask=ok, other=0.0).to(tl.float32)
    y = g * tl.sigmoid(g) * x * scale
    y = tl.clamp(y, -50000.0, 50000.0)
    tl.store(out_ptr + idx, y.to(tl.float8e5), mask=ok)


class ModelNew(torch.nn.Module):
    def forward(self, x, gate):
        x, gate = x.contiguous(), gate.contiguous()
        out = torch.empty(x.shape, dtype=torch.float8_e5m2, device=x.device)
        n = x.numel()
        silu_mul_quant[(triton.cdiv(n, 512),)](x, gate, out, n, 0.75, BLOCK=512)
        return out
