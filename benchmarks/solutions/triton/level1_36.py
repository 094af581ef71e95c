"""Root mean square norm over the features: a block of positions a program, the features in a loop."""

import torch
import torch.nn as nn
import triton
import triton.language as tl

BLOCK_SIZE = 1024


@triton.jit
def rms_norm_kernel(x_ptr, out_ptr, features, positions, eps, BLOCK: tl.constexpr):
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < positions
    start = tl.program_id(0).to(tl.int64) * features * positions
    squares = tl.zeros((BLOCK,), tl.float32)
    for feature in range(features):
        x = tl.load(x_ptr + start + feature * positions + at, mask=inside, other=0.0)
        squares += x * x
    root = tl.sqrt(squares / features + eps)
    for feature in range(features):
        x = tl.load(x_ptr + start + feature * positions + at, mask=inside, other=0.0)
        tl.store(out_ptr + start + feature * positions + at, x / root, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, num_features: int, eps: float = 1e-5):
        super().__init__()
        self.num_features = num_features
        self.eps = eps

    def forward(self, x):
        samples, features = x.shape[:2]
        positions = x.numel() // (samples * features)
        out = torch.empty_like(x)
        grid = (samples, triton.cdiv(positions, BLOCK_SIZE))
        rms_norm_kernel[grid](x, out, features, positions, self.eps, BLOCK=BLOCK_SIZE)
        return out
