# problem: listed
# Inputs in a list and a dict, outputs in a list; factors of one element are loaded in the kernel.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, first_ptr, second_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * tl.load(first_ptr) + tl.load(second_ptr), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, tensors, scales):
        outputs = [torch.empty_like(tensor) for tensor in tensors]
        for tensor, out in zip(tensors, outputs):
            n = tensor.numel()
            scale_kernel[(triton.cdiv(n, 128),)](tensor, scales["first"], scales["second"], out, n, BLOCK=128)
        return outputs
