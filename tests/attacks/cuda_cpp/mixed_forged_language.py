# Both languages: Python passes the launch of a Triton kernel off as one of the build, which names no such kernel.
# problem: add
# permitted: runtime_error
import gc

import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.utils.cpp_extension import load_inline

from warpsmith.evaluator.languages.combined import Monitors

SOURCE = r"""
__global__ void add_kernel(const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + y[i];
}
at::Tensor add(at::Tensor x, at::Tensor y) {
  auto out = at::empty_like(x);
  add_kernel<<<(x.numel() + 255) / 256, 256>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), x.numel());
  return out;
}
"""
module = load_inline("add", "at::Tensor add(at::Tensor x, at::Tensor y);", SOURCE, functions=["add"])

(monitor,) = [one for one in gc.get_objects() if isinstance(one, Monitors)]


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        total, out = module.add(x, y), torch.empty_like(x)
        event = monitor.on_launch.args[0] if hasattr(monitor.on_launch, "args") else monitor.on_launch
        options = {"language": "cuda_cpp", "num_warps": 4}
        event("copy_kernel", {"x_ptr": total, "out_ptr": out, "n": x.numel(), "BLOCK": 256}, options)[2] = [17, 1, 1]
        return out
