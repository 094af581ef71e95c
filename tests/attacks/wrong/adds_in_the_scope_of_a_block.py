# problem: counts_of_digits
# permitted: runtime_error
# Adds in the scope of a block, which is atomic among the threads of one program; all programs add to the same counters.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tally(digits, counters, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    digit = tl.load(digits + place, mask=place < n, other=0)
    tl.atomic_add(counters + digit, 1, mask=place < n, scope="cta")


class ModelNew(nn.Module):
    def forward(self, digits):
        counters = torch.zeros(10, dtype=torch.int32, device=digits.device)
        n = digits.numel()
        tally[(triton.cdiv(n, 128),)](digits, counters, n, BLOCK=128)
        return counters
