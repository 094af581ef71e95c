# Packed accessors, an optional bias, a keyword argument with a default; parameters of a module.
# problem: layernorm
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CPP = """
#include <torch/extension.h>
torch::Tensor layer_norm(torch::Tensor x, torch::Tensor weight, c10::optional<torch::Tensor> bias, double eps);
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "layer norm";
  m.def("layer_norm", &layer_norm, "layer norm of rows", py::arg("x"), py::arg("weight"),
        py::arg("bias") = py::none(), py::arg("eps") = 1e-5);
}
"""
CUDA = """
#include <torch/extension.h>

template <typename scalar_t>
__global__ void layer_norm_kernel(
    const torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> x,
    const torch::PackedTensorAccessor32<scalar_t, 1, torch::RestrictPtrTraits> weight,
    const scalar_t* bias,
    torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> y,
    const float eps) {
  extern __shared__ float partial[];
  const int row = blockIdx.x, columns = x.size(1);
  float sum = 0.f, squares = 0.f;
  for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += x[row][c];
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) partial[threadIdx.x] += partial[threadIdx.x + s];
    __syncthreads();
  }
  const float mean = partial[0] / columns;
  __syncthreads();
  for (int c = threadIdx.x; c < columns; c += blockDim.x) squares += (x[row][c] - mean) * (x[row][c] - mean);
  partial[threadIdx.x] = squares;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) partial[threadIdx.x] += partial[threadIdx.x + s];
    __syncthreads();
  }
  const float scale = rsqrtf(partial[0] / columns + eps);
  for (int c = threadIdx.x; c < columns; c += blockDim.x)
    y[row][c] = (x[row][c] - mean) * scale * weight[c] + (bias ? bias[c] : scalar_t(0));
}

torch::Tensor layer_norm(torch::Tensor x, torch::Tensor weight, c10::optional<torch::Tensor> bias, double eps) {
  auto y = torch::empty_like(x);
  const int threads = 128;
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "layer_norm", ([&] {
    layer_norm_kernel<scalar_t><<<x.size(0), threads, threads * sizeof(float)>>>(
        x.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(),
        weight.packed_accessor32<scalar_t, 1, torch::RestrictPtrTraits>(),
        bias.has_value() ? bias->data_ptr<scalar_t>() : nullptr,
        y.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(), static_cast<float>(eps));
  }));
  return y;
}
"""
extension = load_inline(name="layer_norm", cpp_sources=[CPP], cuda_sources=[CUDA])


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return extension.layer_norm(x, self.norm.weight, bias=self.norm.bias, eps=self.norm.eps)
