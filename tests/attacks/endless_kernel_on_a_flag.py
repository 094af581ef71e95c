# problem: add
# device: cuda
# permitted: timeout
# A kernel that waits for a flag which nobody sets.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def add(x, y):
    out = torch.empty_like(x)
    n = x.numel()
    add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
    return out


@triton.jit
def wait_kernel(flag_ptr, out_ptr):
    rounds = 0
    while tl.load(flag_ptr, volatile=True) == 0:
        rounds += 1
    tl.store(out_ptr, rounds.to(tl.float32))


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, flag = add(x, y), torch.zeros(1, dtype=torch.int32, device=x.device)
        wait_kernel[(1,)](flag, out)
        return out
