import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return (x * 2 + 1).reciprocal()


def get_inputs():
    return [torch.rand(900) + 0.5]


def get_init_inputs():
    return []
# ----- candidate -----
"""Two kernels on a stream of their own, with an event, inside an nvtx range."""
import torch
import triton
import triton.language as tl


@triton.jit
def affine(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0.0) * 2 + 1, mask=i < n)


@triton.jit
def invert(y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, 1.0 / tl.load(y_ptr + i, mask=i < n, other=1.0), mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        current = torch.cuda.current_stream(x.device)
        side = torch.cuda.Stream(device=x.device)
        y = torch.empty_like(x)
        n = x.numel()
        grid = (triton.cdiv(n, 256),)
        with torch.cuda.nvtx.range("affine+invert"):
            side.wait_stream(current)
            with torch.cuda.stream(side):
                affine[grid](x, y, n, BLOCK=256)
                done = torch.cuda.Event()
                done.record(side)
            current.wait_event(done)
            y.record_stream(side)
            invert[grid](y, n, BLOCK=256)
        return y
