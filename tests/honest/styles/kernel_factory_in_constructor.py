import torch
import torch.nn as nn
class Model(nn.Module):
    def __init__(self, slope, scale):
        super().__init__()
        self.slope = slope
        self.scale = scale
    def forward(self, x):
        return torch.nn.functional.leaky_relu(x, self.slope) * self.scale
def get_inputs():
    return [torch.randn(6, 5, 31)]
def get_init_inputs():
    return [0.07, 3.0]
# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


class ModelNew(nn.Module):
    def __init__(self, slope, scale):
        super().__init__()
        self.kernel = self._build(float(slope), float(scale))

    @staticmethod
    def _build(slope: float, scale: float):
        SLOPE = tl.constexpr(slope)
        SCALE = tl.constexpr(scale)

        @triton.jit
        def leaky_scale_kernel(x_ptr, y_ptr, numel, BLOCK_SIZE: tl.constexpr):
            idx = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
            keep = idx < numel
            v = tl.load(x_ptr + idx, mask=keep, other=0.0)
            v = tl.where(v >= 0, v, v * SLOPE) * SCALE
            tl.store(y_ptr + idx, v, mask=keep)

        return leaky_scale_kernel

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK_SIZE"]),)
        self.kernel[grid](x, y, x.numel(), BLOCK_SIZE=512)
        return y
