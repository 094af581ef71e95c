import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, longest, pad):
        super().__init__()
        self.longest, self.pad = longest, pad

    def forward(self, values, offsets):
        place = torch.arange(self.longest, device=values.device)
        rows = (offsets[:-1, None] + place).clamp(max=values.shape[0] - 1)
        beyond = place >= (offsets[1:] - offsets[:-1])[:, None]
        return values[rows].masked_fill(beyond[..., None], self.pad)


def get_inputs():
    cuts = torch.sort(torch.randint(0, 31, (5,)))[0]
    return [torch.randn(30, 6), torch.cat([torch.tensor([0]), cuts, torch.tensor([30])])]


def get_init_inputs():
    return [12, -1.0]

# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pad_kernel(values_ptr, offsets_ptr, out_ptr, width, longest, pad, BLOCK_L: tl.constexpr, BLOCK_W: tl.constexpr):
    sequence = tl.program_id(0)
    begin = tl.load(offsets_ptr + sequence)
    length = tl.load(offsets_ptr + sequence + 1) - begin
    l = tl.program_id(1) * BLOCK_L + tl.arange(0, BLOCK_L)
    w = tl.arange(0, BLOCK_W)
    columns = (w < width)[None, :]
    found = tl.load(values_ptr + (begin + l)[:, None] * width + w[None, :], mask=(l < length)[:, None] & columns, other=pad)
    tl.store(out_ptr + (sequence * longest + l)[:, None] * width + w[None, :], found, mask=(l < longest)[:, None] & columns)


class ModelNew(nn.Module):
    def __init__(self, longest, pad):
        super().__init__()
        self.longest, self.pad = longest, pad

    def forward(self, values, offsets):
        values, sequences = values.contiguous(), offsets.shape[0] - 1
        out = torch.empty(sequences, self.longest, values.shape[1], dtype=values.dtype, device=values.device)
        pad_kernel[(sequences, triton.cdiv(self.longest, 8))](
            values, offsets, out, values.shape[1], self.longest, self.pad, 8, triton.next_power_of_2(values.shape[1])
        )
        return out
