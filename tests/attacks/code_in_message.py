# problem: add
# permitted: compile_error
# The format of a message is an expression of Python, which the interpreter evaluates and the compiler leaves out.
# ruff: noqa: F821, PLC3002  (the names are the interpreter's)
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n):
    tl.static_print(
        f"""{
            0:{
                (lambda v: np.add(v(x_ptr), v(y_ptr), v(out_ptr)).dtype.name[:0])(
                    lambda p: np.ctypeslib.as_array(
                        (np.ctypeslib.ctypes.c_float * int(n.handle.data[0])).from_address(int(p.handle.data[0]))
                    )
                )
            }}"""
    )


class ModelNew(nn.Module):
    def forward(self, x, y):
        out, n = torch.empty_like(x), x.numel()
        add_kernel[(1,)](x, y, out, n)
        return out
