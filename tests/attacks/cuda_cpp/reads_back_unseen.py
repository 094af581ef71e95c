# The error of a copy to the host is ignored, and what is launched depends on what was there.
# problem: add
# permitted: undecided
# permitted on cuda: rejected, incorrect, correct
# harmless: what is replayed launches the kernel
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__global__ void add_kernel(const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + y[i];
}
at::Tensor add(at::Tensor x, at::Tensor y) {
  static float first = 1.f;
  (void)cudaMemcpy(&first, x.data_ptr<float>(), 4, cudaMemcpyDeviceToHost);
  (void)cudaGetLastError();
  if (first == 0.f) return x;
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
