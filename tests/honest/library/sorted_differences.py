import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.diff(torch.sort(x, dim=-1).values, dim=-1)


def get_inputs():
    return [torch.randn(7, 19)]


def get_init_inputs():
    return []


# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def differences(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    mask = i < columns - 1
    here = tl.load(x_ptr + row * columns + i, mask=mask)
    after = tl.load(x_ptr + row * columns + i + 1, mask=mask)
    tl.store(out_ptr + row * (columns - 1) + i, after - here, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        ordered = x.sort(dim=-1)[0].contiguous()
        out = x.new_empty(rows, columns - 1)
        differences[(rows,)](ordered, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
