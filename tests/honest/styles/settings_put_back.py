import torch


class Model(torch.nn.Module):
    def forward(self, tensors, options):
        return [tensor.abs() * options["scale"] for tensor in tensors]


def get_inputs():
    return [[torch.randn(300), torch.randn(20, 15)], {"scale": torch.rand(1)}]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def scaled_size(x, scale, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(y + i, tl.abs(v) * tl.load(scale), mask=i < n)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("noise", None)
        torch.backends.cudnn.benchmark = True

    def forward(self, tensors, options):
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        precision = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        tensors = list(tensors)
        results = []
        with torch.random.fork_rng(devices=[]), torch.set_grad_enabled(False):
            torch.manual_seed(0)
            while tensors:
                x = tensors.pop(0)
                y = torch.empty_like(x)
                grid = (triton.cdiv(x.numel(), 128),)
                scaled_size[grid](x, options["scale"], y, x.numel(), BLOCK=128)
                results.append(y)
        self.noise = torch.empty(4, device=x.device)
        torch.set_float32_matmul_precision(precision)
        torch.set_grad_enabled(before)
        return results
