# A thread launches after the function has returned.
# problem: add
# permitted: runtime_error, rejected
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <thread>
__global__ void add_kernel(const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + y[i];
}
at::Tensor add(at::Tensor x, at::Tensor y) {
  auto out = at::empty_like(x);
  const float *a = x.data_ptr<float>(), *b = y.data_ptr<float>();
  float* c = out.data_ptr<float>();
  const int n = x.numel();
  std::thread([=] { add_kernel<<<(n + 255) / 256, 256>>>(a, b, c, n); }).detach();
  return out;
}
"""
module = load_inline("add", "at::Tensor add(at::Tensor x, at::Tensor y);", SOURCE, functions=["add"])


class ModelNew(nn.Module):
    def forward(self, x, y):
        return module.add(x, y)
