import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """A diagonal state space model whose step is a softplus."""

    def __init__(self, channels, states):
        super().__init__()
        self.decay = nn.Parameter(-torch.rand(channels, states) - 0.1)

    def forward(self, u, step, into, out_of):
        step = F.softplus(step)
        state = u.new_zeros(u.shape[0], *self.decay.shape)
        outputs = []
        for t in range(u.shape[1]):
            drive = step[:, t, :, None] * into[:, t, None, :] * u[:, t, :, None]
            state = torch.exp(step[:, t, :, None] * self.decay) * state + drive
            outputs.append((state * out_of[:, t, None, :]).sum(-1))
        return torch.stack(outputs, 1)


def get_inputs():
    return [torch.randn(2, 9, 10), torch.randn(2, 9, 10), torch.randn(2, 9, 4), torch.randn(2, 9, 4)]


def get_init_inputs():
    return [10, 4]

# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softplus(x):
    return tl.where(x > 20.0, x, tl.log(1.0 + tl.exp(tl.minimum(x, 20.0))))


@triton.jit
def scan_kernel(u_ptr, step_ptr, decay_ptr, into_ptr, out_of_ptr, y_ptr, length, channels, states,
                BLOCK_C: tl.constexpr, BLOCK_S: tl.constexpr):
    batch = tl.program_id(0)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    s = tl.arange(0, BLOCK_S)
    inside = (c < channels)[:, None] & (s < states)[None, :]
    decay = tl.load(decay_ptr + c[:, None] * states + s[None, :], mask=inside, other=0.0)
    state = tl.zeros((BLOCK_C, BLOCK_S), dtype=tl.float32)
    for t in range(length):
        row = batch * length + t
        u = tl.load(u_ptr + row * channels + c, mask=c < channels, other=0.0)
        dt = softplus(tl.load(step_ptr + row * channels + c, mask=c < channels, other=0.0))
        into = tl.load(into_ptr + row * states + s, mask=s < states, other=0.0)
        out_of = tl.load(out_of_ptr + row * states + s, mask=s < states, other=0.0)
        state = tl.exp(dt[:, None] * decay) * state + (dt * u)[:, None] * into[None, :]
        tl.store(y_ptr + row * channels + c, tl.sum(state * out_of[None, :], axis=1), mask=c < channels)


class ModelNew(nn.Module):
    def __init__(self, channels, states):
        super().__init__()
        self.decay = nn.Parameter(torch.zeros(channels, states))

    def forward(self, u, step, into, out_of):
        u, step, into, out_of = (tensor.contiguous() for tensor in (u, step, into, out_of))
        batch, length, channels = u.shape
        states = into.shape[-1]
        y = torch.empty_like(u)
        scan_kernel[(batch, triton.cdiv(channels, 8))](
            u, step, self.decay, into, out_of, y, length, channels, states,
            BLOCK_C=8, BLOCK_S=triton.next_power_of_2(states),
        )
        return y
