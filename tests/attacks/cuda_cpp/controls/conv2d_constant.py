# Filters in constant memory, copied there from a tensor; several kernel arguments of different widths.
# problem: conv2d
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <cuda_runtime.h>

__constant__ float filters[4096];

__global__ void conv_kernel(const float* x, const float* bias, float* y, int channels, int height, int width,
                            int filters_count, short size, char padding) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  const int batch = blockIdx.z / filters_count, filter = blockIdx.z % filters_count;
  if (row >= height || col >= width) return;
  float sum = bias[filter];
  for (int c = 0; c < channels; ++c)
    for (int i = 0; i < size; ++i)
      for (int j = 0; j < size; ++j) {
        const int r = row + i - padding, k = col + j - padding;
        if (r >= 0 && r < height && k >= 0 && k < width)
          sum += x[((batch * channels + c) * height + r) * width + k] *
                 filters[((filter * channels + c) * size + i) * size + j];
      }
  y[((batch * filters_count + filter) * height + row) * width + col] = sum;
}

torch::Tensor conv(torch::Tensor x, torch::Tensor weight, torch::Tensor bias) {
  TORCH_CHECK(weight.numel() <= 4096, "too many weights for constant memory");
  const int batch = x.size(0), channels = x.size(1), height = x.size(2), width = x.size(3);
  const int count = weight.size(0), size = weight.size(2);
  auto y = torch::empty({batch, count, height, width}, x.options());
  cudaMemcpyToSymbol(filters, weight.data_ptr<float>(), weight.numel() * sizeof(float), 0, cudaMemcpyDeviceToDevice);
  const dim3 block(16, 16);
  const dim3 grid((width + 15) / 16, (height + 15) / 16, batch * count);
  conv_kernel<<<grid, block>>>(x.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), channels, height,
                               width, count, static_cast<short>(size), static_cast<char>(size / 2));
  return y;
}
"""
extension = load_inline(
    name="conv_constant",
    cpp_sources="torch::Tensor conv(torch::Tensor x, torch::Tensor weight, torch::Tensor bias);",
    cuda_sources=SOURCE,
    functions=["conv"],
)


class ModelNew(nn.Module):
    def __init__(self, channels, filters, size):
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, size, padding=1)

    def forward(self, x):
        return extension.conv(x, self.conv.weight.contiguous(), self.conv.bias)
