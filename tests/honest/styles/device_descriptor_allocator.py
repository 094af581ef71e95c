import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x * x + 1.0


def get_inputs():
    return [torch.randn(32, 64)]


def get_init_inputs():
    return []
# ----- candidate -----
"""Descriptors that the kernel makes itself, with the allocator that Triton asks the host for."""
import torch
import triton
import triton.language as tl


def alloc_fn(size: int, alignment: int, stream):
    return torch.empty(size, device="cuda", dtype=torch.int8)


triton.set_allocator(alloc_fn)


@triton.jit
def square_plus(x_ptr, y_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    y = tl.make_tensor_descriptor(y_ptr, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    v = x.load([m, n])
    y.store([m, n], v * v + 1.0)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        M, N = x.shape
        y = torch.empty_like(x)
        square_plus[(triton.cdiv(M, 16), triton.cdiv(N, 16))](x, y, M, N, BM=16, BN=16)
        return y
