# problem: best_six
# permitted: incorrect
# A lane keeps the two largest of the numbers that it reads: three of the best six in one lane are rare.
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def best_kernel(x_ptr, out_ptr, columns, COUNT: tl.constexpr, LANES: tl.constexpr, EACH: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, EACH)[:, None] * LANES + tl.arange(0, LANES)[None, :]
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=-float("inf"))
    one = tl.max(x, axis=0)
    place = tl.max(tl.where(x == one[None, :], at, -1), axis=0)
    two = tl.max(tl.where(at == place[None, :], -float("inf"), x), axis=0)
    for number in range(COUNT):
        best = tl.max(one, axis=0)
        tl.store(out_ptr + row * COUNT + number, best)
        taken = one == best
        one = tl.where(taken, two, one)
        two = tl.where(taken, -float("inf"), two)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = x.new_empty(rows, 6)
        lanes = triton.next_power_of_2(triton.cdiv(columns, 8))
        best_kernel[(rows,)](x, out, columns, COUNT=6, LANES=lanes, EACH=8)
        return out
