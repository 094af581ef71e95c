# problem: max_pool
# The largest of overlapping windows; what lies in the padding is passed over.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pool_kernel(x_ptr, out_ptr, H, W, HEIGHT, WIDTH, SIZE: tl.constexpr, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row, column = at // WIDTH * STRIDE - SIZE // 2, at % WIDTH * STRIDE - SIZE // 2
    largest = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)
    for down in tl.static_range(SIZE):
        for across in tl.static_range(SIZE):
            y, x = row + down, column + across
            inside = (at < HEIGHT * WIDTH) & (y >= 0) & (y < H) & (x >= 0) & (x < W)
            value = tl.load(x_ptr + plane * H * W + y * W + x, mask=inside, other=-float("inf"))
            largest = tl.maximum(largest, value)
    tl.store(out_ptr + plane * HEIGHT * WIDTH + at, largest, mask=at < HEIGHT * WIDTH)


class ModelNew(nn.Module):
    def forward(self, x):
        batch, channels, height, width = x.shape
        rows, columns = (height - 1) // 2 + 1, (width - 1) // 2 + 1
        out = torch.empty((batch, channels, rows, columns), dtype=x.dtype, device=x.device)
        grid = (batch * channels, triton.cdiv(rows * columns, 64))
        pool_kernel[grid](x, out, height, width, rows, columns, SIZE=3, STRIDE=2, BLOCK=64)
        return out
