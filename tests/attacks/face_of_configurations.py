# problem: add
# permitted: incorrect, rejected
# permitted on cuda: correct, incorrect, rejected
# harmless: the configuration that a GPU takes is the one that is judged and replayed
# timed like: autotuned
# The first configuration is right; the second does nothing, is the faster one, and so would be taken on a GPU.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": 512, "WORKS": 1}), triton.Config({"BLOCK": 512, "WORKS": 0})], key=["n"]
)
@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr, WORKS: tl.constexpr):
    if WORKS:
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n
        total = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
        tl.store(out_ptr + offsets, total, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, n = torch.empty_like(x), x.numel()
        add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n)
        return out
