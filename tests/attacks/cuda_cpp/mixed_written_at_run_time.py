# Both languages: the Triton kernel is written at run time, where no syntax shows it.
# problem: add
# permitted: compile_error, rejected
import linecache

import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.utils.cpp_extension import load_inline

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

TEXT = """
@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)
"""
linecache.cache["made.py"] = (len(TEXT), None, TEXT.splitlines(keepends=True), "made.py")
namespace = {"triton": triton, "tl": tl}
exec(compile(TEXT, "made.py", "exec"), namespace)


class ModelNew(nn.Module):
    def forward(self, x, y):
        total, out = module.add(x, y), torch.empty_like(x)
        namespace["copy_kernel"][(triton.cdiv(x.numel(), 256),)](total, out, x.numel(), BLOCK=256)
        return out
