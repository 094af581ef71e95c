import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x.amax(dim=-1)


def get_inputs():
    return [torch.randn(24, 96)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


# The autotuner skips a configuration whose assertion fails; which ones do depends on the width of a row.
@triton.autotune([triton.Config({"WIDTH": 1 << p}) for p in (4, 6, 8, 9, 10, 11)], key=["N"])
@triton.jit
def row_max(x_ptr, y_ptr, N: tl.constexpr, WIDTH: tl.constexpr):
    tl.static_assert(WIDTH < 2 * N, "a block is at most twice a row")
    row = tl.program_id(0)
    best = tl.full((), float("-inf"), tl.float32)
    for start in tl.static_range(0, N, WIDTH):
        at = start + tl.arange(0, WIDTH)
        best = tl.maximum(best, tl.max(tl.load(x_ptr + row * N + at, mask=at < N, other=float("-inf")), 0))
    tl.store(y_ptr + row, best)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = x.new_empty(x.shape[0])
        row_max[(x.shape[0],)](x, y, x.shape[1])
        return y
