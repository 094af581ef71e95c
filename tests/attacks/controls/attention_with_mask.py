# problem: attention_with_mask
# Attention with a boolean mask; all keys of a block of rows at once.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, keep_ptr, out_ptr, length, WIDTH: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr
):
    head = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    key, column = tl.arange(0, KEYS), tl.arange(0, WIDTH)
    q = tl.load(q_ptr + (head * length + row)[:, None] * WIDTH + column[None, :], mask=row[:, None] < length, other=0.0)
    theirs = (head * length + key)[:, None] * WIDTH + column[None, :]
    k = tl.load(k_ptr + theirs, mask=key[:, None] < length, other=0.0)
    v = tl.load(v_ptr + theirs, mask=key[:, None] < length, other=0.0)
    inside = (row[:, None] < length) & (key[None, :] < length)
    keep = tl.load(keep_ptr + (head * length + row)[:, None] * length + key[None, :], mask=inside, other=0)
    score = tl.dot(q, tl.trans(k), input_precision="ieee") * 0.25
    score = tl.where(keep != 0, score, -1e30)
    score = tl.where(key[None, :] < length, score, -float("inf"))
    weight = tl.exp(score - tl.max(score, axis=1)[:, None])
    mixed = tl.dot(weight, v, input_precision="ieee") / tl.sum(weight, axis=1)[:, None]
    target = out_ptr + (head * length + row)[:, None] * WIDTH + column[None, :]
    tl.store(target, mixed, mask=row[:, None] < length)


class ModelNew(nn.Module):
    def forward(self, q, k, v, keep):
        heads, length, width = q.shape
        out = torch.empty_like(q)
        grid = (triton.cdiv(length, 16), heads)
        attention_kernel[grid](q, k, v, keep, out, length, WIDTH=width, ROWS=16, KEYS=triton.next_power_of_2(length))
        return out
