import torch


class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.relu(x) + y


def get_inputs():
    return [torch.randn(48, 64), torch.randn(48, 64)]


def get_init_inputs():
    return []


# ----- candidate -----
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def as_descriptor(given, rows, columns, BLOCK: tl.constexpr):
    if isinstance(given, tl.tensor_descriptor):
        return given
    else:
        return tl.make_tensor_descriptor(given, [rows, columns], [columns, 1], [BLOCK, BLOCK])


@triton.jit
def relu_add(x, y, out, rows, columns, BLOCK: tl.constexpr):
    x_desc = as_descriptor(x, rows, columns, BLOCK)
    y_desc = as_descriptor(y, rows, columns, BLOCK)
    out_desc = as_descriptor(out, rows, columns, BLOCK)
    at = [tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK]
    out_desc.store(at, tl.maximum(x_desc.load(at), 0.0) + y_desc.load(at))


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device=x.device))
        rows, columns = x.shape
        out = torch.empty_like(x)
        BLOCK = 16
        grid = (triton.cdiv(rows, BLOCK), triton.cdiv(columns, BLOCK))
        # Two of the three are described by the host, the third by the kernel.
        x_desc = TensorDescriptor.from_tensor(x, [BLOCK, BLOCK])
        out_desc = TensorDescriptor.from_tensor(out, [BLOCK, BLOCK])
        relu_add[grid](x_desc, y, out_desc, rows, columns, BLOCK)
        return out
