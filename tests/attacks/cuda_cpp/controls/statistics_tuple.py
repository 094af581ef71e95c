# A std::tuple of three outputs; the grid from the occupancy of the kernel.
# problem: statistics
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <ATen/cuda/CUDAContext.h>
__global__ void statistics_kernel(const float* x, float* mean, float* peak, float* low, int rows, int columns) {
  for (int row = blockIdx.x * blockDim.x + threadIdx.x; row < rows; row += gridDim.x * blockDim.x) {
    float sum = 0.f, top = -INFINITY, bottom = INFINITY;
    for (int c = 0; c < columns; ++c) {
      const float v = x[row * columns + c];
      sum += v; top = fmaxf(top, v); bottom = fminf(bottom, v);
    }
    mean[row] = sum / columns; peak[row] = top; low[row] = bottom;
  }
}
std::tuple<at::Tensor, at::Tensor, at::Tensor> statistics(const at::Tensor& x) {
  auto mean = at::empty({x.size(0)}, x.options()), peak = at::empty_like(mean), low = at::empty_like(mean);
  int blocks = 0;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, statistics_kernel, 32, 0);
  const int most = blocks * at::cuda::getCurrentDeviceProperties()->multiProcessorCount;
  const int wanted = (x.size(0) + 31) / 32;
  statistics_kernel<<<std::max(1, std::min(wanted, most)), 32>>>(
      x.const_data_ptr<float>(), mean.mutable_data_ptr<float>(), peak.mutable_data_ptr<float>(),
      low.mutable_data_ptr<float>(), x.size(0), x.size(1));
  return std::make_tuple(mean, peak, low);
}
"""
module = load_inline(
    name="statistics",
    cpp_sources="std::tuple<at::Tensor, at::Tensor, at::Tensor> statistics(const at::Tensor& x);",
    cuda_sources=SOURCE,
    functions=["statistics"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        mean, peak, low = module.statistics(x)
        return {"mean": mean, "range": {"peak": peak, "low": low}}
