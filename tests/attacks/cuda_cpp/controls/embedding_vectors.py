# float4 loads; sizes as a std::vector; a tensor argument by const reference and an int64 index.
# problem: embedding
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__global__ void gather_kernel(const int64_t* __restrict__ index, const float4* __restrict__ table, float4* out,
                              int quads, float factor) {
  const int64_t word = index[blockIdx.x];
  for (int q = threadIdx.x; q < quads; q += blockDim.x) {
    float4 v = __ldg(&table[word * quads + q]);
    v.x *= factor; v.y *= factor; v.z *= factor; v.w *= factor;
    out[blockIdx.x * quads + q] = v;
  }
}
at::Tensor gather(const at::Tensor& index, const at::Tensor& table, double factor) {
  std::vector<int64_t> sizes = index.sizes().vec();
  sizes.push_back(table.size(1));
  TORCH_CHECK(table.size(1) % 4 == 0, "rows of ", table.size(1), " floats are no multiple of 4");
  at::Tensor out = at::empty(sizes, table.options());
  gather_kernel<<<index.numel(), 32>>>(
      index.data_ptr<int64_t>(), reinterpret_cast<const float4*>(table.data_ptr<float>()),
      reinterpret_cast<float4*>(out.data_ptr<float>()), table.size(1) / 4, factor);
  return out;
}
"""
module = load_inline(
    name="gather",
    cpp_sources="at::Tensor gather(const at::Tensor& index, const at::Tensor& table, double factor);",
    cuda_sources=SOURCE,
    functions=["gather"],
)


class ModelNew(nn.Module):
    def __init__(self, words, features):
        super().__init__()
        self.table = nn.Embedding(words, features)

    def forward(self, index):
        return module.gather(index, self.table.weight, 2.0)
