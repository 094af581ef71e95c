import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return ((0.3 * x + 0.7) * x - 1.1) * x + 2.0


def get_inputs():
    return [torch.randn(64, 9)]


def get_init_inputs():
    return []
# ----- candidate -----
import torch
import triton
import triton.language as tl


@triton.jit
def horner(x_ptr, y_ptr, n, C3, C2, C1, C0, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, ((C3 * x + C2) * x + C1) * x + C0, mask=i < n)


class Launcher:
    COEFFICIENTS = {"C3": 0.3, "C2": 0.7, "C1": -1.1, "C0": 2.0}

    @staticmethod
    def grid(numel):
        def of(meta):
            return (triton.cdiv(numel, meta["BLOCK"]),)

        return of

    @classmethod
    def run(cls, x):
        y = torch.empty_like(x)
        horner[cls.grid(x.numel())](x, y, x.numel(), BLOCK=128, **cls.COEFFICIENTS)
        return y


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return Launcher.run(x)
