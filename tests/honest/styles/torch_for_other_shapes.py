import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.log_softmax(x, dim=1)


def get_inputs():
    return [torch.randn(24, 64)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def log_softmax_rows(x_ptr, y_ptr, WIDTH: tl.constexpr):
    at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    x = tl.load(x_ptr + at)
    x -= tl.max(x, 0)
    tl.store(y_ptr + at, x - tl.log(tl.sum(tl.exp(x), 0)))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        width = x.shape[1]
        # The kernel takes whole rows of a power of two; anything else is left to torch.
        if width & (width - 1) or width > 1024:
            return torch.log_softmax(x, dim=1)
        y = torch.empty_like(x)
        log_softmax_rows[(x.shape[0],)](x, y, WIDTH=width)
        return y
