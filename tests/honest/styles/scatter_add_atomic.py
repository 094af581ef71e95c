import torch


class Model(torch.nn.Module):
    def __init__(self, bins):
        super().__init__()
        self.bins = bins

    def forward(self, values, index):
        out = torch.zeros(self.bins, values.shape[1], device=values.device)
        return out.index_add(0, index, values)


def get_inputs():
    return [torch.randn(45, 14), torch.randint(0, 8, (45,))]


def get_init_inputs():
    return [8]
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def index_add(v_ptr, i_ptr, o_ptr, D, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    d = tl.arange(0, BLOCK)
    target = tl.load(i_ptr + row)
    tl.atomic_add(o_ptr + target * D + d, tl.load(v_ptr + row * D + d, mask=d < D, other=0.0), mask=d < D)


class ModelNew(torch.nn.Module):
    def __init__(self, bins):
        super().__init__()
        self.bins = bins

    def forward(self, values, index):
        D = values.shape[1]
        out = torch.zeros((self.bins, D), dtype=values.dtype, device=values.device)
        index_add[(values.shape[0],)](values, index, out, D, BLOCK=triton.next_power_of_2(D))
        return out
