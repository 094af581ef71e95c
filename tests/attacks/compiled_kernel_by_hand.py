# problem: add
# device: cuda
# permitted: correct, rejected, incorrect, runtime_error
# harmless: where it is correct the launch was traced and replayed
# Keeps what Triton compiled and launches that from then on, past Triton's own launch.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.compiled = None

    def forward(self, x, y):
        out, grid = torch.empty_like(x), (triton.cdiv(x.numel(), 1024), 1, 1)
        if self.compiled is None:
            self.compiled = add_kernel[grid](x, y, out, x.numel(), BLOCK=1024)
        else:
            self.compiled[grid](x, y, out, x.numel(), 1024)
        return out
