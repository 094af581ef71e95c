# A kernel writes to constant memory by its generic address, for the next call.
# problem: add
# permitted: undecided
# permitted on cuda: runtime_error, incorrect
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__constant__ float factor[4] = {0.f, 0.f, 0.f, 0.f};
__global__ void add_kernel(const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = (x[i] + y[i]) * factor[i & 3];
  float* place = const_cast<float*>(&factor[i & 3]);
  if (i < 4) asm volatile("st.f32 [%0], %1;" ::"l"(place), "f"(1.f));
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
