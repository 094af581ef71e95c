import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.ModuleDict({"into": nn.Linear(width, 2 * width), "out": nn.Linear(2 * width, width)})
        layers = self.layers
        self.run = lambda x: layers.out(torch.softmax(layers.into(x), dim=-1))

    def forward(self, x):
        return x + self.run(x)


def get_inputs():
    return [torch.randn(24, 32)]


def get_init_inputs():
    return [32]
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def block(x_ptr, w1_ptr, b1_ptr, w2_ptr, b2_ptr, y_ptr, n, W: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c, h = tl.arange(0, W), tl.arange(0, 2 * W)
    mask = row[:, None] < n
    x = tl.load(x_ptr + row[:, None] * W + c[None, :], mask=mask, other=0.0)
    w1 = tl.load(w1_ptr + h[None, :] * W + c[:, None])
    z = tl.dot(x, w1, input_precision="ieee") + tl.load(b1_ptr + h)[None, :]
    z = tl.exp(z - tl.max(z, 1)[:, None])
    z = z / tl.sum(z, 1)[:, None]
    w2 = tl.load(w2_ptr + c[None, :] * (2 * W) + h[:, None])
    y = x + (tl.dot(z, w2, input_precision="ieee") + tl.load(b2_ptr + c)[None, :])
    tl.store(y_ptr + row[:, None] * W + c[None, :], y, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.ModuleDict({"into": nn.Linear(width, 2 * width), "out": nn.Linear(2 * width, width)})

    def forward(self, x):
        x = x.contiguous()
        y, n = torch.empty_like(x), x.shape[0]
        one, two = self.layers["into"], self.layers["out"]
        block[(triton.cdiv(n, 16),)](x, one.weight, one.bias, two.weight, two.bias, y, n, W=x.shape[1], BLOCK=16)
        return y
