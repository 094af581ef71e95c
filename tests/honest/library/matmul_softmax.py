import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.softmax(torch.matmul(a, b), dim=-1)


def get_inputs():
    return [torch.randn(3, 10, 16), torch.randn(3, 16, 21)]


def get_init_inputs():
    return []


# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_rows(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + i, mask=i < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * columns + i, e / tl.sum(e, axis=0), mask=i < columns)


class ModelNew(nn.Module):
    def forward(self, a, b):
        scores = (a @ b).contiguous()
        out = torch.empty_like(scores)
        columns = scores.shape[-1]
        softmax_rows[(scores.numel() // columns,)](scores, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
