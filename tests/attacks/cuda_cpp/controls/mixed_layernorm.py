# Both languages: moments by a C++ kernel built in the constructor, the rest by a Triton kernel that calls another.
# problem: layernorm
import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__global__ void moments_kernel(const float* x, float* moments, int columns) {
  __shared__ float sums[32], squares[32];
  float sum = 0.0f, square = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    const float value = x[blockIdx.x * columns + i];
    sum += value;
    square += value * value;
  }
  for (int step = 16; step > 0; step /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, step);
    square += __shfl_xor_sync(0xffffffffu, square, step);
  }
  if (threadIdx.x % 32 == 0) {
    sums[threadIdx.x / 32] = sum;
    squares[threadIdx.x / 32] = square;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < blockDim.x / 32; ++i) {
      sum += sums[i];
      square += squares[i];
    }
    moments[2 * blockIdx.x] = sum / columns;
    moments[2 * blockIdx.x + 1] = square / columns - (sum / columns) * (sum / columns);
  }
}
torch::Tensor moments(torch::Tensor x) {
  TORCH_CHECK(x.is_cuda() && x.is_contiguous(), "x must be contiguous on a GPU");
  auto found = torch::empty({x.size(0), 2}, x.options());
  moments_kernel<<<x.size(0), 128>>>(x.data_ptr<float>(), found.data_ptr<float>(), x.size(1));
  return found;
}
"""


@triton.jit
def normalized(x, mean, variance):
    return (x - mean) * tl.rsqrt(variance + 1e-5)


@triton.jit
def affine_kernel(x_ptr, moments_ptr, weight_ptr, bias_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    m = i < columns
    x = normalized(
        tl.load(x_ptr + r * columns + i, mask=m), tl.load(moments_ptr + 2 * r), tl.load(moments_ptr + 2 * r + 1)
    )
    out = x * tl.load(weight_ptr + i, mask=m) + tl.load(bias_ptr + i, mask=m)
    tl.store(out_ptr + r * columns + i, out, mask=m)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.module = load_inline(
            "moments", "torch::Tensor moments(torch::Tensor x);", SOURCE, functions="moments", with_cuda=True
        )

    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty_like(x)
        affine_kernel[(rows,)](
            x, self.module.moments(x), self.norm.weight, self.norm.bias, out, columns, BLOCK=256, num_warps=4
        )
        return out
