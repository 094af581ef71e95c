# problem: nearest_code
# Sums the squares of differences, where the other form of a square would lose the digits of far points.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def nearest_kernel(points_ptr, codes_ptr, least_ptr, index_ptr, codes, width, CODES: tl.constexpr, WIDTH: tl.constexpr):
    row, code, column = tl.program_id(0), tl.arange(0, CODES), tl.arange(0, WIDTH)
    point = tl.load(points_ptr + row * width + column, mask=column < width, other=0.0)
    inside = (code[:, None] < codes) & (column[None, :] < width)
    away = tl.where(
        inside, tl.load(codes_ptr + code[:, None] * width + column[None, :], mask=inside) - point[None, :], 0
    )
    distance = tl.where(code < codes, tl.sum(away * away, axis=1), float("inf"))
    tl.store(least_ptr + row, tl.min(distance))
    tl.store(index_ptr + row, tl.argmin(distance, axis=0).to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, points, codes):
        (rows, width), count = points.shape, codes.shape[0]
        least = torch.empty(rows, dtype=points.dtype, device=points.device)
        index = torch.empty(rows, dtype=torch.int64, device=points.device)
        blocks = {"CODES": triton.next_power_of_2(count), "WIDTH": triton.next_power_of_2(width)}
        nearest_kernel[(rows,)](points, codes, least, index, count, width, **blocks)
        return least, index
