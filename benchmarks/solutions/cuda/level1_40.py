"""Layer norm of few long rows: statistics of chunks, their combination, then every element."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
constexpr int CHUNK = 8192, THREADS = 256;

__device__ float block_sum(float value) {
  __shared__ float of_warp[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  if (lane == 0) of_warp[warp] = value;
  __syncthreads();
  value = lane < blockDim.x / 32 ? of_warp[lane] : 0.f;
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  __syncthreads();
  return value;
}

__global__ void chunk_statistics_kernel(const float* __restrict__ x, float* means, float* spreads, int64_t length) {
  const int64_t first = int64_t(blockIdx.y) * CHUNK, count = min(length - first, int64_t(CHUNK));
  x += blockIdx.x * length + first;
  float sum = 0.f;
  for (int64_t i = threadIdx.x; i < count; i += THREADS) sum += x[i];
  const float mean = block_sum(sum) / count;
  float spread = 0.f;
  for (int64_t i = threadIdx.x; i < count; i += THREADS) spread += (x[i] - mean) * (x[i] - mean);
  spread = block_sum(spread);
  if (threadIdx.x == 0) {
    means[blockIdx.x * gridDim.y + blockIdx.y] = mean;
    spreads[blockIdx.x * gridDim.y + blockIdx.y] = spread;
  }
}

__global__ void row_statistics_kernel(const float* means, const float* spreads, float* statistics, int64_t length,
                                      int64_t chunks, float eps) {
  means += blockIdx.x * chunks;
  spreads += blockIdx.x * chunks;
  float sum = 0.f;
  for (int64_t i = threadIdx.x; i < chunks; i += THREADS) sum += means[i] * min(length - i * CHUNK, int64_t(CHUNK));
  const float mean = block_sum(sum) / length;
  float spread = 0.f;
  for (int64_t i = threadIdx.x; i < chunks; i += THREADS) {
    const float away = means[i] - mean;
    spread += spreads[i] + min(length - i * CHUNK, int64_t(CHUNK)) * away * away;
  }
  spread = block_sum(spread);
  if (threadIdx.x == 0) {
    statistics[2 * blockIdx.x] = mean;
    statistics[2 * blockIdx.x + 1] = rsqrtf(spread / length + eps);
  }
}

__global__ void normalise_kernel(const float* __restrict__ x, const float* __restrict__ statistics,
                                 const float* __restrict__ weight, const float* __restrict__ bias,
                                 float* __restrict__ out, int64_t length) {
  const int64_t first = int64_t(blockIdx.y) * CHUNK, last = min(length, first + CHUNK);
  const float mean = statistics[2 * blockIdx.x], scale = statistics[2 * blockIdx.x + 1];
  x += blockIdx.x * length;
  out += blockIdx.x * length;
  for (int64_t i = first + threadIdx.x; i < last; i += THREADS) out[i] = (x[i] - mean) * scale * weight[i] + bias[i];
}

torch::Tensor layer_norm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
  const int64_t length = weight.numel(), rows = x.numel() / length, chunks = (length + CHUNK - 1) / CHUNK;
  auto out = torch::empty_like(x);
  auto means = torch::empty({rows, chunks}, x.options()), spreads = torch::empty({rows, chunks}, x.options());
  auto statistics = torch::empty({rows, 2}, x.options());
  const dim3 blocks(rows, chunks);
  chunk_statistics_kernel<<<blocks, THREADS>>>(x.data_ptr<float>(), means.data_ptr<float>(), spreads.data_ptr<float>(),
                                               length);
  row_statistics_kernel<<<rows, THREADS>>>(means.data_ptr<float>(), spreads.data_ptr<float>(),
                                           statistics.data_ptr<float>(), length, chunks, static_cast<float>(eps));
  normalise_kernel<<<blocks, THREADS>>>(x.data_ptr<float>(), statistics.data_ptr<float>(), weight.data_ptr<float>(),
                                        bias.data_ptr<float>(), out.data_ptr<float>(), length);
  return out;
}
"""
module = load_inline(
    name="level1_40_layer_norm",
    cpp_sources="torch::Tensor layer_norm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps);",
    cuda_sources=SOURCE,
    functions=["layer_norm"],
)


class ModelNew(nn.Module):
    def __init__(self, normalized_shape: tuple):
        super().__init__()
        self.ln = nn.LayerNorm(normalized_shape=normalized_shape)

    def forward(self, x):
        return module.layer_norm(x, self.ln.weight, self.ln.bias, self.ln.eps)
