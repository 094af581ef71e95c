# problem: row_sum
# Host code as it is written for a GPU: it asks for one, names one, and takes its number of multiprocessors.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, start_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        column = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + column, mask=column < columns, other=0.0)
        tl.store(out_ptr + row, tl.load(start_ptr + row) + tl.sum(x, axis=0))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("unused", torch.zeros(4, device="cuda"), persistent=False)
        self.cuda().to("cuda")

    def forward(self, x):
        assert x.is_cuda, "x must be on a GPU"
        x = x.contiguous().cuda().to("cuda")
        rows, columns = x.shape
        start = torch.zeros(rows, device=torch.device("cuda:0"))
        out = torch.empty(rows, device="cuda", dtype=x.dtype)
        programs = torch.cuda.get_device_properties(x.device).multi_processor_count
        with torch.cuda.device(x.device), torch.cuda.device_of(x):
            sum_kernel[(programs,)](x, start, out, rows, columns, BLOCK=triton.next_power_of_2(columns))
        torch.cuda.synchronize()
        return out
