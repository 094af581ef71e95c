import torch


class Model(torch.nn.Module):
    def forward(self, x, index):
        return torch.gather(x, 1, index)


def get_inputs():
    return [torch.randn(10, 40), torch.randint(0, 40, (10, 25))]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def gather_rows(x_ptr, idx_ptr, o_ptr, N, K, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    k = tl.arange(0, BLOCK)
    at = tl.load(idx_ptr + row * K + k, mask=k < K, other=0)
    tl.device_assert((at >= 0) & (at < N))
    tl.store(o_ptr + row * K + k, tl.load(x_ptr + row * N + at, mask=k < K), mask=k < K)


class ModelNew(torch.nn.Module):
    def forward(self, x, index):
        out = torch.empty(index.shape, device=x.device, dtype=x.dtype)
        gather_rows[(x.shape[0],)](x, index, out, x.shape[1], index.shape[1], BLOCK=triton.next_power_of_2(index.shape[1]))
        return out
