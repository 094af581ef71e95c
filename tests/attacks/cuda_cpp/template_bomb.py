# Templates that double with each level.
# problem: add
# permitted: compile_error
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
template <int N, int M>
struct Grown {
  static constexpr long value = Grown<N - 1, 2 * M>::value + Grown<N - 1, 2 * M + 1>::value;
};
template <int M>
struct Grown<0, M> {
  static constexpr long value = M;
};
__global__ void add_kernel(const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + y[i];
}
at::Tensor add(at::Tensor x, at::Tensor y) {
  TORCH_CHECK((Grown<26, 1>::value) != 0);
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
