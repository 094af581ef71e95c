# problem: leaky_channels
# One program carries each channel's state from the first step to the last.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def leaky_kernel(x_ptr, gate_ptr, out_ptr, steps):
    row = tl.program_id(0)
    state = 0.0
    for step in range(0, steps):
        keep = tl.sigmoid(tl.load(gate_ptr + row * steps + step))
        state = keep * state + tl.load(x_ptr + row * steps + step)
        tl.store(out_ptr + row * steps + step, state)


class ModelNew(nn.Module):
    def forward(self, x, gate):
        x, gate = x.contiguous(), gate.contiguous()
        out, steps = torch.empty_like(x), x.shape[-1]
        leaky_kernel[(x.numel() // steps,)](x, gate, out, steps)
        return out
