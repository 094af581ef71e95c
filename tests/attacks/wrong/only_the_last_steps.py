# problem: last_of_gru
# permitted: incorrect
# Begins 30 steps before the end: a gate near one half has forgotten what came before.
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gru_kernel(x_ptr, w_ptr, u_ptr, b_ptr, c_ptr, out_ptr, steps, F: tl.constexpr, U: tl.constexpr, LAST: tl.constexpr):
    row, f, u = tl.program_id(0), tl.arange(0, F), tl.arange(0, U)
    of_x, of_state = u[:, None] * F + f[None, :], u[:, None] * U + u[None, :]
    wr, wz, wn = tl.load(w_ptr + of_x), tl.load(w_ptr + U * F + of_x), tl.load(w_ptr + 2 * U * F + of_x)
    ur, uz, un = tl.load(u_ptr + of_state), tl.load(u_ptr + U * U + of_state), tl.load(u_ptr + 2 * U * U + of_state)
    br, bz, bn = tl.load(b_ptr + u), tl.load(b_ptr + U + u), tl.load(b_ptr + 2 * U + u)
    cr, cz, cn = tl.load(c_ptr + u), tl.load(c_ptr + U + u), tl.load(c_ptr + 2 * U + u)
    state = tl.zeros((U,), tl.float32)
    for step in range(tl.maximum(steps - LAST, 0), steps):
        x = tl.load(x_ptr + (row * steps + step) * F + f)[None, :]
        h = state[None, :]
        r = tl.sigmoid(tl.sum(wr * x, 1) + br + tl.sum(ur * h, 1) + cr)
        z = tl.sigmoid(tl.sum(wz * x, 1) + bz + tl.sum(uz * h, 1) + cz)
        n = 2.0 * tl.sigmoid(2.0 * (tl.sum(wn * x, 1) + bn + r * (tl.sum(un * h, 1) + cn))) - 1.0
        state = (1.0 - z) * n + z * state
    tl.store(out_ptr + row * U + u, state)


class ModelNew(nn.Module):
    def __init__(self, features, units):
        super().__init__()
        self.gru = nn.GRU(features, units, batch_first=True)

    def forward(self, x):
        x, of = x.contiguous(), self.gru
        out = x.new_empty(x.shape[0], of.hidden_size)
        weights = of.weight_ih_l0, of.weight_hh_l0, of.bias_ih_l0, of.bias_hh_l0
        gru_kernel[(x.shape[0],)](x, *weights, out, x.shape[1], F=of.input_size, U=of.hidden_size, LAST=LAST)
        return out


LAST = 30
