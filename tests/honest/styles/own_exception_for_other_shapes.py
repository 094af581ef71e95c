import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x.reshape(x.shape[0], -1, 32).sum(-1)


def get_inputs():
    return [torch.randn(16, 192)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


class Unsupported(Exception):
    """Shapes that this module has no kernel for."""


@triton.jit
def chunk_sums(x_ptr, y_ptr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr):
    at = tl.program_id(0) * CHUNK * CHUNKS + tl.arange(0, CHUNK)
    for chunk in tl.static_range(CHUNKS):
        tl.store(y_ptr + tl.program_id(0) * CHUNKS + chunk, tl.sum(tl.load(x_ptr + at + chunk * CHUNK), 0))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rows, width = x.shape
        if width % 64:
            raise Unsupported(f"rows of {width}")
        y = torch.empty(rows, width // 32, device=x.device)
        chunk_sums[(rows,)](x, y, CHUNK=32, CHUNKS=width // 32)
        return y
