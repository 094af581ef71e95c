# problem: product
# device: cpu
# permitted: undecided
# Programs take turns by a lock, which nobody sees here.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def product_kernel(x_ptr, out_ptr, columns):
    row = tl.program_id(0)
    factor = tl.load(x_ptr + row * columns + tl.program_id(1))
    lock = out_ptr + tl.num_programs(0) + row
    while tl.atomic_cas(lock, factor * 0, factor * 0 + 1) == 1:
        pass
    before = tl.atomic_add(out_ptr + row, factor * 0)
    tl.atomic_add(out_ptr + row, before * factor % 65521 - before)
    tl.atomic_xchg(lock, factor * 0)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.ones(2 * rows, dtype=torch.int64, device=x.device)
        out[rows:] = 0
        product_kernel[(rows, columns)](x, out, columns)
        return out[:rows]
