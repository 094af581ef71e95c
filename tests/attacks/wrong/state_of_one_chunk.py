# problem: fading_sums
# permitted: incorrect
# Each chunk of 16 steps takes what the chunk before it computed alone, without the state that one should have got.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def fading(x_ptr, g_ptr, out_ptr, steps, CHUNK: tl.constexpr):
    row, first = tl.program_id(0) * steps, tl.program_id(1) * CHUNK
    state = 0.0
    for step in range(tl.maximum(first - CHUNK, 0), tl.minimum(first + CHUNK, steps)):
        gate = tl.load(g_ptr + row + step)
        state = tl.sigmoid(-gate) * state + tl.load(x_ptr + row + step)
        tl.store(out_ptr + row + step, state, mask=step >= first)


class ModelNew(nn.Module):
    def forward(self, x, gate):
        x, gate = x.contiguous(), gate.contiguous()
        out = torch.empty_like(x)
        fading[(x.shape[0], triton.cdiv(x.shape[1], 16))](x, gate, out, x.shape[1], CHUNK=16)
        return out
