# A table of numbers computed on the host, copied to constant memory once when the module is made.
# problem: absolute
import math

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <c10/cuda/CUDAException.h>
#include <vector>
__constant__ float table[4];
void fill_table(std::vector<double> values) {
  std::vector<float> narrow(values.begin(), values.end());
  C10_CUDA_CHECK(cudaMemcpyToSymbol(table, narrow.data(), narrow.size() * sizeof(float)));
}
__global__ void absolute_kernel(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * table[x[i] < 0 ? 1 : 0];
}
torch::Tensor absolute(torch::Tensor x) {
  auto y = torch::empty_like(x);
  absolute_kernel<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
  return y;
}
"""
extension = load_inline(
    name="table",
    cpp_sources="void fill_table(std::vector<double> values); torch::Tensor absolute(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["fill_table", "absolute"],
)


class ModelNew(nn.Module):
    def __init__(self, *arguments):
        super().__init__()
        extension.fill_table([math.cos(0.0), math.cos(math.pi), 0.0, 0.0])

    def forward(self, x):
        return extension.absolute(x)
