import torch


class Model(torch.nn.Module):
    def forward(self, x):
        groups = x.view(x.shape[0], -1, 32)
        scale = groups.abs().amax(-1).clamp(min=1e-10) / 448.0
        codes = (groups / scale[..., None]).clamp(-448, 448).to(torch.float8_e4m3fn)
        return codes.view(x.shape), scale


def get_inputs():
    return [torch.randn(24, 128)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl

E4M3_MAX = 448.0
GROUP_SIZE = 32


@triton.jit
def _per_token_group_quant_fp8(y_ptr, q_ptr, s_ptr, fp8_max, eps, BLOCK: tl.constexpr):
    g_id = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    y = tl.load(y_ptr + g_id * BLOCK + cols).to(tl.float32)
    absmax = tl.maximum(tl.max(tl.abs(y)), eps)
    inv_scale = fp8_max / absmax
    q = tl.clamp(y * inv_scale, -fp8_max, fp8_max).to(q_ptr.dtype.element_ty)
    tl.store(q_ptr + g_id * BLOCK + cols, q)
    tl.store(s_ptr + g_id, absmax * (1.0 / fp8_max))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        q = torch.empty_like(x, dtype=torch.float8_e4m3fn)
        s = torch.empty(x.shape[:-1] + (x.shape[-1] // GROUP_SIZE,), device=x.device, dtype=torch.float32)
        _per_token_group_quant_fp8[(x.numel() // GROUP_SIZE,)](x, q, s, E4M3_MAX, 1e-10, BLOCK=GROUP_SIZE)
        return q, s
