# problem: half_matmul_of_aligned_rows
# A product through descriptors of the host, whose blocks the hook of each configuration sets, as in Triton's tutorial.
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


def set_blocks(named):
    named["a"].block_shape = [named["BM"], named["BK"]]
    named["b"].block_shape = [named["BK"], named["BN"]]
    named["out"].block_shape = [named["BM"], named["BN"]]


@triton.autotune(
    configs=[triton.Config({"BM": bm, "BN": bn, "BK": 32}, pre_hook=set_blocks) for bm, bn in ((32, 32), (64, 32))],
    key=["K"],
)
@triton.jit
def matmul_kernel(a, b, out, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([row, k]), b.load([k, column]), total)
    out.store([row, column], total.to(tl.float16))


class ModelNew(nn.Module):
    def forward(self, a, b):
        (M, K), N = a.shape, b.shape[1]
        out = torch.empty((M, N), dtype=a.dtype, device=a.device)
        tiles = [TensorDescriptor.from_tensor(tensor, [32, 32]) for tensor in (a, b, out)]
        matmul_kernel[lambda named: (triton.cdiv(M, named["BM"]), triton.cdiv(N, named["BN"]))](*tiles, K)
        return out
