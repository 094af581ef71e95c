"""Convolution, minimum over the channels, tanh twice: then a loop over channels in each thread."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__global__ void tail_kernel(const float* __restrict__ x, float* __restrict__ out, int channels,
                            int64_t positions) {
  const int64_t at = int64_t(blockIdx.y) * blockDim.x + threadIdx.x;
  if (at >= positions) return;
  x += blockIdx.x * channels * positions + at;
  float found = INFINITY;
#pragma unroll 8
  for (int channel = 0; channel < channels; ++channel) found = fminf(found, x[channel * positions]);
  out[blockIdx.x * positions + at] = tanhf(tanhf(found));
}

torch::Tensor tail(torch::Tensor x) {
  const int64_t samples = x.size(0), channels = x.size(1), positions = x.size(2) * x.size(3);
  auto out = torch::empty({samples, 1, x.size(2), x.size(3)}, x.options());
  const int threads = 256;
  const dim3 blocks(samples, (positions + threads - 1) / threads);
  tail_kernel<<<blocks, threads>>>(x.data_ptr<float>(), out.data_ptr<float>(), channels, positions);
  return out;
}
"""
module = load_inline(
    name="level2_25_tail",
    cpp_sources="torch::Tensor tail(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["tail"],
)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)

    def forward(self, x):
        return module.tail(self.conv(x))
