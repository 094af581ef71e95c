import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, gate):
        keep = torch.sigmoid(gate)
        h, out = torch.zeros_like(x[:, 0]), []
        for t in range(x.shape[1]):
            h = keep[:, t] * h + (1 - keep[:, t]) * x[:, t]
            out.append(h)
        return torch.stack(out, dim=1)


def get_inputs():
    return [torch.randn(3, 72, 6), torch.randn(3, 72, 6)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _chunk_states(x_ptr, g_ptr, kept_ptr, state_ptr, steps, width, chunks, CHUNK: tl.constexpr, BLOCK: tl.constexpr):
    """What each chunk makes of a zero state, and the share that it keeps of the one before."""
    b, chunk, d = tl.program_id(0), tl.program_id(1), tl.arange(0, BLOCK)
    state, kept = tl.zeros((BLOCK,), tl.float32), tl.full((BLOCK,), 1.0, tl.float32)
    for t in range(chunk * CHUNK, tl.minimum(chunk * CHUNK + CHUNK, steps)):
        at = (b * steps + t) * width + d
        keep = tl.sigmoid(tl.load(g_ptr + at, mask=d < width, other=0.0))
        state = keep * state + (1 - keep) * tl.load(x_ptr + at, mask=d < width, other=0.0)
        kept *= keep
    tl.store(kept_ptr + (b * chunks + chunk) * width + d, kept, mask=d < width)
    tl.store(state_ptr + (b * chunks + chunk) * width + d, state, mask=d < width)


@triton.jit
def _carry(kept_ptr, state_ptr, chunks, width, BLOCK: tl.constexpr):
    """Replace the chunks' own states by those with which they begin."""
    b, d = tl.program_id(0), tl.arange(0, BLOCK)
    carried = tl.zeros((BLOCK,), tl.float32)
    for chunk in range(chunks):
        at = (b * chunks + chunk) * width + d
        own = tl.load(state_ptr + at, mask=d < width, other=0.0)
        kept = tl.load(kept_ptr + at, mask=d < width, other=0.0)
        tl.store(state_ptr + at, carried, mask=d < width)
        carried = kept * carried + own


@triton.jit
def _outputs(x_ptr, g_ptr, state_ptr, out_ptr, steps, width, chunks, CHUNK: tl.constexpr, BLOCK: tl.constexpr):
    b, chunk, d = tl.program_id(0), tl.program_id(1), tl.arange(0, BLOCK)
    state = tl.load(state_ptr + (b * chunks + chunk) * width + d, mask=d < width, other=0.0)
    for t in range(chunk * CHUNK, tl.minimum(chunk * CHUNK + CHUNK, steps)):
        at = (b * steps + t) * width + d
        keep = tl.sigmoid(tl.load(g_ptr + at, mask=d < width, other=0.0))
        state = keep * state + (1 - keep) * tl.load(x_ptr + at, mask=d < width, other=0.0)
        tl.store(out_ptr + at, state, mask=d < width)


class ModelNew(nn.Module):
    CHUNK = 16

    def forward(self, x, gate):
        x, gate = x.contiguous(), gate.contiguous()
        batch, steps, width = x.shape
        chunks, block = triton.cdiv(steps, self.CHUNK), triton.next_power_of_2(width)
        out, state = torch.empty_like(x), x.new_empty(batch, chunks, width)
        kept, grid = torch.empty_like(state), (batch, chunks)
        _chunk_states[grid](x, gate, kept, state, steps, width, chunks, CHUNK=self.CHUNK, BLOCK=block)
        _carry[(batch,)](kept, state, chunks, width, BLOCK=block)
        _outputs[grid](x, gate, state, out, steps, width, chunks, CHUNK=self.CHUNK, BLOCK=block)
        return out
