# A kernel looks for tensors at addresses that drivers have used.
# problem: add
# permitted: undecided
# permitted on cuda: runtime_error
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__global__ void add_kernel(const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float* guess = reinterpret_cast<const float*>(0x7f0000000000ull + (unsigned long long)i * (2u << 20));
  if (i < n) out[i] = x[i] + y[i];
  if (i < 64 && *guess == 1.f) out[0] = *guess;
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
