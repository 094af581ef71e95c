# problem: embedding
# Rows of a parameter by index, a block of indices in each program.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def lookup_kernel(index_ptr, table_ptr, out_ptr, n, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    index = tl.load(index_ptr + row, mask=row < n, other=0)
    mask = (row < n)[:, None] & (column < columns)[None, :]
    found = tl.load(table_ptr + index[:, None] * columns + column[None, :], mask=mask)
    tl.store(out_ptr + row[:, None] * columns + column[None, :], found * 2.0, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, words, features):
        super().__init__()
        self.table = nn.Embedding(words, features)

    def forward(self, index):
        columns = self.table.weight.shape[1]
        out = torch.empty((*index.shape, columns), dtype=self.table.weight.dtype, device=index.device)
        block = triton.next_power_of_2(columns)
        lookup_kernel[(triton.cdiv(index.numel(), 8),)](
            index, self.table.weight, out, index.numel(), columns, ROWS=8, BLOCK=block
        )
        return out
