"""Mean of each window: a thread an output, the window in two loops."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__global__ void average_pool_kernel(const float* __restrict__ x, float* __restrict__ out, int height, int width,
                                    int out_height, int out_width, int side, int stride, int padding) {
  const int at = blockIdx.y * blockDim.x + threadIdx.x;
  if (at >= out_height * out_width) return;
  const int top = at / out_width * stride - padding, left = at % out_width * stride - padding;
  x += int64_t(blockIdx.x) * height * width;
  float total = 0.f;
  for (int y = max(top, 0); y < min(top + side, height); ++y)
    for (int column = max(left, 0); column < min(left + side, width); ++column) total += x[y * width + column];
  out[int64_t(blockIdx.x) * out_height * out_width + at] = total / (side * side);
}

torch::Tensor average_pool(torch::Tensor x, int64_t side, int64_t stride, int64_t padding) {
  const int64_t height = x.size(2), width = x.size(3);
  const int64_t out_height = (height + 2 * padding - side) / stride + 1;
  const int64_t out_width = (width + 2 * padding - side) / stride + 1;
  auto out = torch::empty({x.size(0), x.size(1), out_height, out_width}, x.options());
  const int threads = 256;
  const dim3 blocks(x.size(0) * x.size(1), (out_height * out_width + threads - 1) / threads);
  average_pool_kernel<<<blocks, threads>>>(x.data_ptr<float>(), out.data_ptr<float>(), height, width, out_height,
                                           out_width, side, stride, padding);
  return out;
}
"""
module = load_inline(
    name="level1_45_average_pool",
    cpp_sources="torch::Tensor average_pool(torch::Tensor x, int64_t side, int64_t stride, int64_t padding);",
    cuda_sources=SOURCE,
    functions=["average_pool"],
)


class ModelNew(nn.Module):
    def __init__(self, kernel_size: int, stride: int | None = None, padding: int = 0):
        super().__init__()
        self.side, self.stride, self.padding = kernel_size, stride or kernel_size, padding

    def forward(self, x):
        return module.average_pool(x, self.side, self.stride, self.padding)
