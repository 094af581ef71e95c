"""A matrix by a number: four elements a thread, as one vector where all four lie inside."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__device__ __forceinline__ float scale_of(float x, float scalar) {
  return x * scalar;
}

__global__ void scale_kernel(const float* __restrict__ x, float* __restrict__ out, int64_t n, float scalar) {
  const int64_t at = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * 4;
  if (at + 4 <= n) {
    float4 four = *reinterpret_cast<const float4*>(x + at);
    four.x = scale_of(four.x, scalar);
    four.y = scale_of(four.y, scalar);
    four.z = scale_of(four.z, scalar);
    four.w = scale_of(four.w, scalar);
    *reinterpret_cast<float4*>(out + at) = four;
  } else {
    for (int64_t i = at; i < n; ++i) out[i] = scale_of(x[i], scalar);
  }
}

torch::Tensor scale(torch::Tensor x, double scalar) {
  auto out = torch::empty_like(x);
  const int64_t n = x.numel(), threads = 256;
  const int64_t blocks = (n + 4 * threads - 1) / (4 * threads);
  scale_kernel<<<blocks, threads>>>(x.data_ptr<float>(), out.data_ptr<float>(), n, static_cast<float>(scalar));
  return out;
}
"""
module = load_inline(
    name="level1_5_scale",
    cpp_sources="torch::Tensor scale(torch::Tensor x, double scalar);",
    cuda_sources=SOURCE,
    functions=["scale"],
)


class ModelNew(nn.Module):
    def forward(self, matrix, scalar):
        return module.scale(matrix, scalar)
