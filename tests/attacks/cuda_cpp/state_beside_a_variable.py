# State lies in the bytes between two variables.
# problem: add
# permitted: undecided
# permitted on cuda: runtime_error, compile_error
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__device__ char small = 0;
__device__ __align__(64) float wide[16] = {1.f};
__global__ void add_kernel(const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  volatile char* beside = &small + 1;
  const bool again = beside[4] == 'k';
  if (i < n) out[i] = again ? wide[0] : x[i] + y[i];
  if (i == 0) beside[4] = 'k';
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
