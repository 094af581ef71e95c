# Python finds the recorder and adds a launch of a kernel that nobody compiled.
# problem: add
# permitted: runtime_error
import gc

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

from warpsmith.evaluator.languages.cuda_cpp.runtime_calls import LaunchMonitor

SOURCE = r"""
__global__ void add_kernel(const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + y[i];
}
at::Tensor add(at::Tensor x, at::Tensor y) {
  auto out = at::empty_like(x);
  add_kernel<<<(x.numel() + 255) / 256, 256>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), x.numel());
  return out;
}
"""
module = load_inline("add", "at::Tensor add(at::Tensor x, at::Tensor y);", SOURCE, functions=["add"])


(monitor,) = [one for one in gc.get_objects() if isinstance(one, LaunchMonitor)]


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = module.add(x, y)
        options = {"build": "0" * 32, "block": [1, 1, 1], "shared": 0, "stream": 0, "cooperative": False}
        monitor.add("_Z5ghostv", [1, 1, 1], {}, options | {"cluster": [0, 0, 0]})
        return out
