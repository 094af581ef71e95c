# Sums in double; kernels that update the module's buffers in place.
# problem: batchnorm
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <ATen/ceil_div.h>
__global__ void batch_norm(const float* x, const float* w, const float* b, float* mean_run, float* var_run, float* y,
                           int rows, int columns, float eps, float momentum) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= columns) return;
  double sum = 0, squares = 0;
  for (int r = 0; r < rows; ++r) sum += x[r * columns + c];
  const double mean = sum / rows;
  for (int r = 0; r < rows; ++r) squares += (x[r * columns + c] - mean) * (x[r * columns + c] - mean);
  const double var = squares / rows;
  const float scale = rsqrt(var + eps);
  for (int r = 0; r < rows; ++r) y[r * columns + c] = (x[r * columns + c] - mean) * scale * w[c] + b[c];
  mean_run[c] = (1 - momentum) * mean_run[c] + momentum * mean;
  var_run[c] = (1 - momentum) * var_run[c] + momentum * squares / (rows - 1);
}
torch::Tensor batchnorm(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor mean, torch::Tensor var,
                        float eps, float momentum) {
  auto y = torch::empty_like(x);
  batch_norm<<<at::ceil_div(x.size(1), int64_t(32)), 32>>>(
      x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), mean.data_ptr<float>(), var.data_ptr<float>(),
      y.data_ptr<float>(), x.size(0), x.size(1), eps, momentum);
  return y;
}
"""
module = load_inline(
    name="batchnorm",
    cpp_sources="torch::Tensor batchnorm(torch::Tensor x, torch::Tensor w, torch::Tensor b, torch::Tensor mean, "
    "torch::Tensor var, float eps, float momentum);",
    cuda_sources=SOURCE,
    functions=["batchnorm"],
)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bn = nn.BatchNorm1d(features)

    def forward(self, x):
        bn = self.bn
        return module.batchnorm(x, bn.weight, bn.bias, bn.running_mean, bn.running_var, bn.eps, bn.momentum)
