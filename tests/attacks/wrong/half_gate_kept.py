# problem: half_gate
# permitted: incorrect, rejected
# permitted on cuda: incorrect, rejected, runtime_error
# Half precision, with the gain copied once, in the constructor.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gate_kernel(x_ptr, gain_ptr, out_ptr, n, columns, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    gain = tl.load(gain_ptr + offsets % columns, mask=mask)
    tl.store(out_ptr + offsets, (tl.maximum(x.to(tl.float32), 0.0) * gain).to(tl.float16), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.randn(features).half())
        self.kept = self.gain.detach().clone()

    def forward(self, x):
        out = torch.empty_like(x)
        gate_kernel[(triton.cdiv(x.numel(), 256),)](x, self.kept, out, x.numel(), x.shape[1], BLOCK=256)
        return out
