# problem: quantise_groups_to_e4m3
# permitted: incorrect
# Stores zero for codes below 0.4; the format has numbers down to 0.002.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def quantise_kernel(x_ptr, codes_ptr, scale_ptr, GROUP: tl.constexpr):
    group, lane = tl.program_id(0), tl.arange(0, GROUP)
    x = tl.load(x_ptr + group * GROUP + lane)
    scale = tl.maximum(tl.max(tl.abs(x), 0), 1e-10) / 448.0
    code = tl.minimum(tl.maximum(x / scale, -448.0), 448.0)
    code = tl.where(tl.abs(code) < 0.4, 0.0, code)
    tl.store(codes_ptr + group * GROUP + lane, code.to(tl.float8e4nv))
    tl.store(scale_ptr + group, scale)


class ModelNew(nn.Module):
    def forward(self, x):
        codes = torch.empty(x.shape, dtype=torch.float8_e4m3fn, device=x.device)
        scale = torch.empty((x.shape[0], x.shape[1] // 32), dtype=torch.float32, device=x.device)
        quantise_kernel[(scale.numel(),)](x, codes, scale, GROUP=32)
        return codes, scale
