import torch


class Model(torch.nn.Module):
    def forward(self, image):
        weights = torch.tensor([0.2989, 0.5870, 0.1140], device=image.device)
        return (image * weights).sum(-1)


def get_inputs():
    return [torch.rand(20, 18, 3)]


def get_init_inputs():
    return []
# ----- candidate -----
# A submission to a kernel competition: a function of one tuple, wrapped afterwards.
import torch
import triton
import triton.language as tl

input_t = tuple
output_t = torch.Tensor


@triton.jit
def grayscale_kernel(rgb, gray, pixels, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = p < pixels
    r = tl.load(rgb + 3 * p, mask=ok)
    g = tl.load(rgb + 3 * p + 1, mask=ok)
    b = tl.load(rgb + 3 * p + 2, mask=ok)
    tl.store(gray + p, 0.2989 * r + 0.5870 * g + 0.1140 * b, mask=ok)


def custom_kernel(data: input_t) -> output_t:
    (rgb,) = data
    h, w, _ = rgb.shape
    gray = torch.empty((h, w), device=rgb.device, dtype=rgb.dtype)
    grayscale_kernel[(triton.cdiv(h * w, 256),)](rgb, gray, h * w, BLOCK=256, num_warps=4)
    return gray


class ModelNew(torch.nn.Module):
    def forward(self, *data):
        return custom_kernel(data)
