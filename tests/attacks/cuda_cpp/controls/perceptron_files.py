# Sources written to files and built by `load`: a .cu with kernels, a .cpp with the bindings, and a header.
# problem: perceptron
import os
import tempfile

import torch.nn as nn
from torch.utils.cpp_extension import load

HEADER = """
#pragma once
#include <torch/extension.h>
torch::Tensor linear(torch::Tensor x, torch::Tensor w, torch::Tensor b, bool gate);
torch::Tensor softmax(torch::Tensor x);
"""
CPP = """
#include "layers.h"
torch::Tensor perceptron(torch::Tensor x, torch::Tensor up, torch::Tensor up_bias, torch::Tensor down,
                         torch::Tensor down_bias) {
  return softmax(linear(linear(x, up, up_bias, true), down, down_bias, false));
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &perceptron, "a perceptron");
  m.def("rows", [](torch::Tensor x) { return x.size(0); });
}
"""
CUDA = """
#include "layers.h"
#include <c10/cuda/CUDAGuard.h>
__global__ void linear_kernel(const float* x, const float* w, const float* b, float* y, int in, int out, bool gate) {
  const int o = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
  if (o >= out) return;
  float sum = b[o];
  for (int i = 0; i < in; ++i) sum += x[row * in + i] * w[o * in + i];
  y[row * out + o] = gate ? sum / (1.f + __expf(-sum)) : sum;
}
__global__ void softmax_kernel(float* x, int columns) {
  float* row = x + blockIdx.x * columns;
  float top = row[0], sum = 0.f;
  for (int c = 1; c < columns; ++c) top = fmaxf(top, row[c]);
  for (int c = 0; c < columns; ++c) sum += __expf(row[c] - top);
  __syncthreads();
  for (int c = threadIdx.x; c < columns; c += blockDim.x) row[c] = __expf(row[c] - top) / sum;
}
torch::Tensor linear(torch::Tensor x, torch::Tensor w, torch::Tensor b, bool gate) {
  const at::cuda::OptionalCUDAGuard guard(device_of(x));
  auto y = torch::empty({x.size(0), w.size(0)}, x.options());
  linear_kernel<<<dim3((w.size(0) + 31) / 32, x.size(0)), 32>>>(
      x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), x.size(1), w.size(0), gate);
  return y;
}
torch::Tensor softmax(torch::Tensor x) {
  softmax_kernel<<<x.size(0), 1>>>(x.data_ptr<float>(), x.size(1));
  return x;
}
"""
folder = tempfile.mkdtemp()
for name, text in {"layers.h": HEADER, "layers.cpp": CPP, "layers_kernel.cu": CUDA}.items():
    with open(os.path.join(folder, name), "w") as file:
        file.write(text)
layers = load(
    name="layers",
    sources=[os.path.join(folder, "layers.cpp"), os.path.join(folder, "layers_kernel.cu")],
    extra_cuda_cflags=["-O2"],
    verbose=False,
)


class ModelNew(nn.Module):
    def __init__(self, features, hidden, out):
        super().__init__()
        self.up = nn.Linear(features, hidden)
        self.down = nn.Linear(hidden, out)

    def forward(self, x):
        assert layers.rows(x) == x.shape[0]
        return layers.forward(x, self.up.weight, self.up.bias, self.down.weight, self.down.bias)
