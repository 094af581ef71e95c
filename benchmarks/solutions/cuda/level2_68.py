"""Matrix product, minimum with a number and its subtraction: torch's layer, and one kernel in place."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__global__ void tail_kernel(float* x, const float* __restrict__ constant, int64_t n) {
  const int64_t at = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at < n) x[at] = fminf(x[at], *constant) - *constant;
}

void tail(torch::Tensor x, torch::Tensor constant) {
  const int64_t n = x.numel(), threads = 256;
  tail_kernel<<<(n + threads - 1) / threads, threads>>>(x.data_ptr<float>(), constant.data_ptr<float>(), n);
}
"""
module = load_inline(
    name="level2_68_tail",
    cpp_sources="void tail(torch::Tensor x, torch::Tensor constant);",
    cuda_sources=SOURCE,
    functions=["tail"],
)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features, constant):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.constant = nn.Parameter(torch.tensor(constant))

    def forward(self, x):
        x = self.linear(x)
        module.tail(x, self.constant)
        return x
