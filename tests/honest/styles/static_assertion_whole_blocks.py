import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x.abs().sum(dim=1)


def get_inputs():
    return [torch.randn(32, 256)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def row_norms(x_ptr, y_ptr, COLS: tl.constexpr, STEP: tl.constexpr):
    # Made for whole blocks, as a condition that the compiler checks.
    tl.static_assert(COLS % STEP == 0, "rows are made of whole blocks")
    row = tl.program_id(0)
    acc = tl.zeros((STEP,), tl.float32)
    for block in range(COLS // STEP):
        acc += tl.abs(tl.load(x_ptr + row * COLS + block * STEP + tl.arange(0, STEP)))
    tl.store(y_ptr + row, tl.sum(acc, 0))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty(x.size(0), device=x.device)
        row_norms[(x.size(0),)](x, y, COLS=x.size(1), STEP=64)
        return y
