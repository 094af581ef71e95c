"""Root mean square norm over the features: a thread a position, the features in a loop."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__global__ void rms_norm_kernel(const float* __restrict__ x, float* __restrict__ out, int64_t features,
                                int64_t positions, float eps) {
  const int64_t at = int64_t(blockIdx.y) * blockDim.x + threadIdx.x;
  if (at >= positions) return;
  x += blockIdx.x * features * positions + at;
  out += blockIdx.x * features * positions + at;
  float squares = 0.f;
  for (int64_t feature = 0; feature < features; ++feature) {
    const float value = x[feature * positions];
    squares += value * value;
  }
  const float root = sqrtf(squares / features + eps);
  for (int64_t feature = 0; feature < features; ++feature) out[feature * positions] = x[feature * positions] / root;
}

torch::Tensor rms_norm(torch::Tensor x, double eps) {
  auto out = torch::empty_like(x);
  const int64_t samples = x.size(0), features = x.size(1), positions = x.numel() / (samples * features);
  const int threads = 256;
  const dim3 blocks(samples, (positions + threads - 1) / threads);
  rms_norm_kernel<<<blocks, threads>>>(x.data_ptr<float>(), out.data_ptr<float>(), features, positions,
                                       static_cast<float>(eps));
  return out;
}
"""
module = load_inline(
    name="level1_36_rms_norm",
    cpp_sources="torch::Tensor rms_norm(torch::Tensor x, double eps);",
    cuda_sources=SOURCE,
    functions=["rms_norm"],
)


class ModelNew(nn.Module):
    def __init__(self, num_features: int, eps: float = 1e-5):
        super().__init__()
        self.num_features = num_features
        self.eps = eps

    def forward(self, x):
        return module.rms_norm(x, self.eps)
