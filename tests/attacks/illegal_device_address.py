# problem: add
# device: cuda
# permitted: runtime_error
# Stores far outside of anything, which ends the context, and asks torch for help after that.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def far_kernel(out_ptr, distance):
    tl.store(out_ptr + distance, 1.0)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        try:
            far_kernel[(1,)](out, 1 << 40)
            torch.cuda.synchronize()
        except Exception:
            return x + y
        return out
