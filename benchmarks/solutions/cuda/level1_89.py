"""Running sums of rows: a block a row, four elements a thread, sums of warps by shuffles."""

import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
constexpr int THREADS = 512, EACH = 4;

__global__ void cumsum_kernel(const float* __restrict__ x, float* __restrict__ out, int64_t columns) {
  __shared__ float of_warp[THREADS / 32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  x += blockIdx.x * columns;
  out += blockIdx.x * columns;
  float before = 0.f;
  for (int64_t first = 0; first < columns; first += THREADS * EACH) {
    const int64_t at = first + threadIdx.x * EACH;
    float values[EACH], total = 0.f;
    for (int i = 0; i < EACH; ++i) values[i] = total += at + i < columns ? x[at + i] : 0.f;
    float scanned = total;
    for (int offset = 1; offset < 32; offset *= 2) {
      const float left = __shfl_up_sync(0xffffffffu, scanned, offset);
      if (lane >= offset) scanned += left;
    }
    if (lane == 31) of_warp[warp] = scanned;
    __syncthreads();
    float of_earlier = 0.f, of_all = 0.f;
    for (int i = 0; i < THREADS / 32; ++i) {
      if (i < warp) of_earlier += of_warp[i];
      of_all += of_warp[i];
    }
    const float shift = before + of_earlier + (scanned - total);
    for (int i = 0; i < EACH; ++i)
      if (at + i < columns) out[at + i] = shift + values[i];
    before += of_all;
    __syncthreads();
  }
}

torch::Tensor cumsum(torch::Tensor x) {
  auto out = torch::empty_like(x);
  const int64_t columns = x.size(-1);
  cumsum_kernel<<<x.numel() / columns, THREADS>>>(x.data_ptr<float>(), out.data_ptr<float>(), columns);
  return out;
}
"""
module = load_inline(
    name="level1_89_cumsum",
    cpp_sources="torch::Tensor cumsum(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["cumsum"],
)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        return module.cumsum(x.movedim(self.dim, -1).contiguous()).movedim(-1, self.dim)
