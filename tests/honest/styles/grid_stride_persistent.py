import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.exp(-x * x)


def get_inputs():
    return [torch.randn(5000)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def gaussian(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    step = tl.num_programs(0) * BLOCK
    for start in range(tl.program_id(0) * BLOCK, n, step):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other=0.0)
        tl.store(y_ptr + i, tl.exp(-x * x), mask=i < n)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.sms = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count

    def forward(self, x):
        y = torch.empty_like(x)
        programs = min(self.sms // 33, triton.cdiv(x.numel(), 256))
        gaussian[(programs,)](x, y, x.numel(), BLOCK=256)
        return y
