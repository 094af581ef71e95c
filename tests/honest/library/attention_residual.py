import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + y.transpose(1, 2).reshape(batch, length, width)


def get_inputs():
    return [torch.randn(2, 9, 32)]


def get_init_inputs():
    return [32, 4]


# ----- candidate -----
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def add_heads(x_ptr, y_ptr, out_ptr, n, length, width, size, sb, sh, sl, sd, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    column = i % width
    row = (i // width) % length
    batch = i // (width * length)
    y = tl.load(y_ptr + batch * sb + (column // size) * sh + row * sl + (column % size) * sd, mask=mask)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=mask) + y, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)

    def forward(self, x):
        batch, length, width = x.shape
        size = width // self.heads
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, size).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x.contiguous()
        out = torch.empty_like(x)
        n = x.numel()
        add_heads[(triton.cdiv(n, 128),)](x, y, out, n, length, width, size, *y.stride(), BLOCK=128)
        return out
