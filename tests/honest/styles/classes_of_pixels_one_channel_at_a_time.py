import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        self.classify = nn.Conv2d(channels, classes, 1)
    def forward(self, image):
        return self.classify(image).argmax(1)


def get_inputs():
    return [torch.randn(3, 24, 9, 10)]


def get_init_inputs():
    return [24, 12]


# ----- candidate -----
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def classes_kernel(x_ptr, w_ptr, b_ptr, out_ptr, C, N, P, BLOCK: tl.constexpr):
    sample, at = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), -float("inf"), tl.float32)
    which = tl.zeros((BLOCK,), tl.int64)
    for n in range(N):
        score = tl.zeros((BLOCK,), tl.float32)
        for back in range(C):
            c = C - 1 - back
            x = tl.load(x_ptr + (sample * C + c) * P + at, mask=at < P, other=0.0)
            score += tl.load(w_ptr + n * C + c) * x
        score += tl.load(b_ptr + n)
        which = tl.where(score > best, n, which)
        best = tl.maximum(score, best)
    tl.store(out_ptr + sample * P + at, which, mask=at < P)


class ModelNew(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        self.classify = nn.Conv2d(channels, classes, 1)

    def forward(self, image):
        image = image.contiguous()
        B, C, H, W = image.shape
        weight, bias = self.classify.weight, self.classify.bias
        out = torch.empty((B, H, W), dtype=torch.int64, device=image.device)
        grid = (B, triton.cdiv(H * W, 64))
        classes_kernel[grid](image, weight, bias, out, C, weight.shape[0], H * W, BLOCK=64)
        return out
