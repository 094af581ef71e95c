# 64 KiB of dynamic shared memory, allowed by cudaFuncSetAttribute; four-dimensional packed accessors.
# problem: attention
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
template <typename T>
using Packed = torch::PackedTensorAccessor32<T, 4, torch::RestrictPtrTraits>;

__global__ void attention_kernel(const Packed<float> q, const Packed<float> k, const Packed<float> v, Packed<float> o,
                                 float scale) {
  extern __shared__ float shared[];
  const int length = k.size(2), width = k.size(3), b = blockIdx.y, h = blockIdx.z, row = blockIdx.x;
  float* scores = shared;
  for (int j = threadIdx.x; j < length; j += blockDim.x) {
    float dot = 0.f;
    for (int d = 0; d < width; ++d) dot += q[b][h][row][d] * k[b][h][j][d];
    scores[j] = dot * scale;
  }
  __syncthreads();
  float top = scores[0], sum = 0.f;
  for (int j = 1; j < length; ++j) top = fmaxf(top, scores[j]);
  for (int j = 0; j < length; ++j) sum += __expf(scores[j] - top);
  for (int d = threadIdx.x; d < width; d += blockDim.x) {
    float mean = 0.f;
    for (int j = 0; j < length; ++j) mean += __expf(scores[j] - top) * v[b][h][j][d];
    o[b][h][row][d] = mean / sum;
  }
}
static Packed<float> packed(const torch::Tensor& t) {
  return t.packed_accessor32<float, 4, torch::RestrictPtrTraits>();
}
torch::Tensor attention(torch::Tensor q, torch::Tensor k, torch::Tensor v) {
  auto o = torch::zeros_like(q);
  const size_t bytes = 64 * 1024;
  cudaFuncSetAttribute(attention_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  attention_kernel<<<dim3(q.size(2), q.size(0), q.size(1)), 64, bytes>>>(
      packed(q), packed(k), packed(v), packed(o), 1.0f / std::sqrt(static_cast<float>(q.size(-1))));
  TORCH_CHECK(cudaGetLastError() == cudaSuccess, "launch failed");
  return o;
}
"""
module = load_inline(
    name="attention",
    cpp_sources="torch::Tensor attention(torch::Tensor q, torch::Tensor k, torch::Tensor v);",
    cuda_sources=SOURCE,
    functions=["attention"],
)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        return module.attention(q.contiguous(), k.contiguous(), v.contiguous())
