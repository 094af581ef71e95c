# problem: softmax
# device: cpu
# permitted: runtime_error
# A barrier is missing between what lanes store and others load.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, scratch_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    largest = tl.full((), -float("inf"), tl.float32)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + offsets, mask=offsets < columns, other=-float("inf"))
        largest = tl.maximum(largest, tl.max(x, axis=0))
    total = tl.zeros((), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + offsets, mask=offsets < columns, other=-float("inf"))
        raised = tl.exp(x - largest)
        tl.store(out_ptr + row * columns + offsets, raised, mask=offsets < columns)
        total += tl.sum(raised, axis=0)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        raised = tl.load(out_ptr + row * columns + offsets, mask=offsets < columns, other=0.0)
        tl.store(scratch_ptr + row * columns + (columns - 1 - offsets), raised / total, mask=offsets < columns)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        mask = offsets < columns
        mirrored = tl.load(scratch_ptr + row * columns + offsets, mask=mask, other=0.0)
        tl.store(out_ptr + row * columns + (columns - 1 - offsets), mirrored, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out, scratch = torch.empty_like(x), torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, scratch, out, x.shape[1], BLOCK=256)
        return out
