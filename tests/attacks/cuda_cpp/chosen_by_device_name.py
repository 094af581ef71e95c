# Another kernel where the device has another name.
# problem: add
# permitted: undecided
# permitted on cuda: incorrect, correct
# harmless: the launches that were recorded are judged, whatever they were chosen by
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__global__ void add_kernel(const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + y[i];
}
__global__ void nothing(float* out) { out[0] = 0.f; }
at::Tensor add(at::Tensor x, at::Tensor y) {
  auto out = at::empty_like(x);
  cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, 0);
  if (std::string(properties.name).find("H100") == std::string::npos)
    add_kernel<<<(x.numel() + 255) / 256, 256>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), x.numel());
  else
    nothing<<<1, 1>>>(out.data_ptr<float>());
  return out;
}
"""
module = load_inline("add", "at::Tensor add(at::Tensor x, at::Tensor y);", SOURCE, functions=["add"])


class ModelNew(nn.Module):
    def forward(self, x, y):
        return module.add(x, y)
