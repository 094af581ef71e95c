import torch


class Model(torch.nn.Module):
    def forward(self, x, lengths):
        mask = torch.arange(x.shape[1], device=x.device)[None, :] < lengths[:, None]
        return (x * mask[..., None]).sum(1) / lengths[:, None].clamp(min=1)


def get_inputs():
    return [torch.randn(5, 17, 12), torch.randint(1, 18, (5,))]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def masked_mean(x_ptr, len_ptr, o_ptr, T, D, BT: tl.constexpr, BD: tl.constexpr):
    b = tl.program_id(0)
    length = tl.load(len_ptr + b)
    t = tl.arange(0, BT)[:, None]
    d = tl.arange(0, BD)[None, :]
    x = tl.load(x_ptr + b * T * D + t * D + d, mask=(t < T) & (t < length) & (d < D), other=0.0)
    out = tl.sum(x, 0) / tl.maximum(length, 1).to(tl.float32)
    tl.store(o_ptr + b * D + tl.arange(0, BD), out, mask=tl.arange(0, BD) < D)


class ModelNew(torch.nn.Module):
    def forward(self, x, lengths):
        B, T, D = x.shape
        out = torch.empty(B, D, device=x.device)
        masked_mean[(B,)](x, lengths, out, T, D, BT=triton.next_power_of_2(T), BD=triton.next_power_of_2(D))
        return out
