# Both languages: a variable of the build counts calls, and the Triton kernel is right from the second one on.
# problem: add
# permitted: undecided
# permitted on cuda: incorrect
import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__device__ int calls = 0;
__global__ void count_kernel(float* found) { found[0] = calls++ ? 1.0f : 0.0f; }
at::Tensor count(at::Tensor x) {
  auto found = at::empty({1}, x.options());
  count_kernel<<<1, 1>>>(found.data_ptr<float>());
  return found;
}
"""
module = load_inline("count", "at::Tensor count(at::Tensor x);", SOURCE, functions=["count"])


@triton.jit
def add_kernel(x_ptr, y_ptr, factor_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + i, mask=i < n), tl.load(y_ptr + i, mask=i < n)
    tl.store(out_ptr + i, (x + y) * tl.load(factor_ptr), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        add_kernel[(triton.cdiv(x.numel(), 256),)](x, y, module.count(x), out, x.numel(), BLOCK=256)
        return out
