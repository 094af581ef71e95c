# problem: add
# permitted: incorrect
# Has torch and Triton build C++ for it, and asks the network.
import subprocess
import sys
import urllib.request

import torch
import torch.nn as nn
import triton
import triton.language as tl
from torch.utils import cpp_extension


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


def succeeded():
    attempts = [
        lambda: cpp_extension.load_inline("own", "int one() { return 1; }", functions=["one"]),
        lambda: urllib.request.urlopen("https://example.org/", timeout=1).close(),
        lambda: subprocess.run([sys.executable, "-m", "pip", "--version"], check=True),
    ]
    for attempt in attempts:
        try:
            attempt()
        except Exception:
            continue
        return True
    return False


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        # The sum is right only where the attempt succeeded: `correct` tells of a hole.
        other = y if succeeded() else x
        add_kernel[(triton.cdiv(x.numel(), 1024),)](x, other, out, x.numel(), BLOCK=1024)
        return out
