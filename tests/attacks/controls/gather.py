# problem: gather
# Rows of a table by index.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gather_kernel(table_ptr, index_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    source = tl.load(index_ptr + row)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    tl.store(out_ptr + row * columns + column, tl.load(table_ptr + source * columns + column, mask=mask), mask=mask)


class ModelNew(nn.Module):
    def forward(self, table, index):
        out = torch.empty((index.shape[0], table.shape[1]), dtype=table.dtype, device=table.device)
        gather_kernel[(index.shape[0],)](table, index, out, table.shape[1], BLOCK=32)
        return out
