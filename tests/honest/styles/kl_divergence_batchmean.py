import torch
import torch.nn.functional as F


class Model(torch.nn.Module):
    def forward(self, predictions, targets):
        return F.kl_div(torch.log(predictions), targets, reduction="batchmean")


def get_inputs():
    return [torch.rand(16, 40).softmax(dim=-1), torch.rand(16, 40).softmax(dim=-1)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def kl_kernel(p_ptr, t_ptr, rows_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    m = i < N
    p = tl.load(p_ptr + row * N + i, mask=m, other=1.0)
    t = tl.load(t_ptr + row * N + i, mask=m, other=0.0)
    safe = tl.where(t > 0, t, 1.0)
    # Zero targets add nothing, as in xlogy.
    tl.store(rows_ptr + row, tl.sum(tl.where(t > 0, t * tl.log(safe), 0.0) - t * tl.log(p)))


@triton.jit
def sum_kernel(x_ptr, out_ptr, n, scale, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0)) * scale)


class ModelNew(torch.nn.Module):
    def forward(self, predictions, targets):
        n, width = predictions.shape
        rows = torch.empty(n, device=predictions.device, dtype=predictions.dtype)
        out = torch.empty((), device=predictions.device, dtype=predictions.dtype)
        kl_kernel[(n,)](predictions, targets, rows, width, BLOCK=triton.next_power_of_2(width))
        sum_kernel[(1,)](rows, out, n, 1.0 / n, BLOCK=triton.next_power_of_2(n))
        return out
