# Inline assembly loads from a fixed address.
# problem: add
# permitted: undecided
# permitted on cuda: runtime_error, compile_error
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__global__ void add_kernel(const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float found;
  asm volatile("{ .reg .u64 at; mov.u64 at, 0x7f0000000000; ld.global.f32 %0, [at]; }" : "=f"(found));
  if (i < n) out[i] = x[i] + y[i] + (found == 1.f ? found : 0.f);
}
at::Tensor add(at::Tensor x, at::Tensor y) {
  auto out = at::empty_like(x);
  add_kernel<<<(x.numel() + 255) / 256, 256>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), x.numel());
  return out;
}
"""
module = load_inline("add", "at::Tensor add(at::Tensor x, at::Tensor y);", SOURCE, functions=["add"])


class ModelNew(nn.Module):
    def forward(self, x, y):
        return module.add(x, y)
