# Asynchronous copies to shared memory with cuda::pipeline; a grid-stride loop.
# problem: long_add
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;
__global__ void add_kernel(const float* x, const float* y, float* out, int64_t n) {
  __shared__ float a[256], b[256];
  auto block = cg::this_thread_block();
  for (int64_t start = blockIdx.x * 256ll; start < n; start += gridDim.x * 256ll) {
    const int count = n - start < 256 ? n - start : 256;
    cg::memcpy_async(block, a, x + start, sizeof(float) * count);
    cg::memcpy_async(block, b, y + start, sizeof(float) * count);
    cg::wait(block);
    if (threadIdx.x < count) out[start + threadIdx.x] = a[threadIdx.x] + b[threadIdx.x];
    block.sync();
  }
}
torch::Tensor add(torch::Tensor x, torch::Tensor y) {
  auto out = torch::empty_like(x);
  int device = 0, processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  add_kernel<<<processors * 4, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), x.numel());
  return out;
}
"""
module = load_inline(
    name="long_add",
    cpp_sources="torch::Tensor add(torch::Tensor x, torch::Tensor y);",
    cuda_sources=SOURCE,
    functions=["add"],
)


class ModelNew(nn.Module):
    def forward(self, x, y):
        return module.add(x, y)
