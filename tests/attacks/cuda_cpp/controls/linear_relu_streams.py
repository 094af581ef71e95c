# A stream of its own, joined by an event before the output is used.
# problem: linear_relu
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/cuda/CUDAGuard.h>
__global__ void product(const float* x, const float* w, float* y, int in, int out) {
  const int o = threadIdx.x, row = blockIdx.x;
  for (int k = o; k < out; k += blockDim.x) {
    float sum = 0.f;
    for (int i = 0; i < in; ++i) sum += x[row * in + i] * w[k * in + i];
    y[row * out + k] = sum;
  }
}
__global__ void bias_relu(float* y, const float* b, int out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fmaxf(y[i] + b[i % out], 0.f);
}
torch::Tensor linear_relu(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
  auto y = torch::empty({x.size(0), w.size(0)}, x.options());
  auto current = at::cuda::getCurrentCUDAStream();
  auto side = at::cuda::getStreamFromPool();
  at::cuda::CUDAEvent ready, done;
  ready.record(current);
  {
    c10::cuda::CUDAStreamGuard guard(side);
    ready.block(side);
    product<<<x.size(0), 32, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), x.size(1), w.size(0));
    done.record(side);
  }
  done.block(current);
  bias_relu<<<(y.numel() + 127) / 128, 128, 0, current>>>(
      y.data_ptr<float>(), b.data_ptr<float>(), w.size(0), y.numel());
  return y;
}
"""
module = load_inline(
    name="linear_relu",
    cpp_sources="torch::Tensor linear_relu(torch::Tensor x, torch::Tensor w, torch::Tensor b);",
    cuda_sources=SOURCE,
    functions=["linear_relu"],
)


class ModelNew(nn.Module):
    def __init__(self, features, out):
        super().__init__()
        self.linear = nn.Linear(features, out)

    def forward(self, x):
        return module.linear_relu(x, self.linear.weight, self.linear.bias)
