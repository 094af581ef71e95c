# Half numbers, two at a time; the tail by at::Half arithmetic.
# problem: half_scale
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <cuda_fp16.h>
__global__ void scale_kernel(const c10::Half* x, c10::Half* y, float factor, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (2 * i + 1 < n) {
    const __half2 pair = reinterpret_cast<const __half2*>(x)[i];
    reinterpret_cast<__half2*>(y)[i] = __hmul2(pair, __float2half2_rn(factor));
  } else if (2 * i < n) {
    y[2 * i] = x[2 * i] * c10::Half(factor);
  }
}
torch::Tensor scale(torch::Tensor x, float factor) {
  auto y = torch::empty_like(x);
  const int n = x.numel(), pairs = (n + 1) / 2;
  scale_kernel<<<(pairs + 127) / 128, 128>>>(x.data_ptr<c10::Half>(), y.data_ptr<c10::Half>(), factor, n);
  return y;
}
"""
module = load_inline(
    name="scale",
    cpp_sources="torch::Tensor scale(torch::Tensor x, float factor);",
    cuda_sources=SOURCE,
    functions=["scale"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return module.scale(x, 3.0)
