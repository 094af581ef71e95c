# problem: linear_softmax
# permitted: incorrect
# The largest logit is not subtracted, and the exponential of one beyond 88 is infinite.
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, w_ptr, b_ptr, out_ptr, features, classes, F: tl.constexpr, C: tl.constexpr):
    row = tl.program_id(0)
    feature, own = tl.arange(0, F), tl.arange(0, C)
    x = tl.load(x_ptr + row * features + feature, mask=feature < features, other=0.0)
    inside = (own < classes)[:, None] & (feature < features)[None, :]
    w = tl.load(w_ptr + own[:, None] * features + feature[None, :], mask=inside, other=0.0)
    logits = tl.sum(w * x[None, :], axis=1) + tl.load(b_ptr + own, mask=own < classes, other=0.0)
    powers = tl.where(own < classes, tl.exp(logits), 0.0)
    tl.store(out_ptr + row * classes + own, powers / tl.sum(powers, axis=0), mask=own < classes)


class ModelNew(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.linear = nn.Linear(features, classes)

    def forward(self, x):
        (rows, features), classes = x.shape, self.linear.out_features
        out = torch.empty((rows, classes), device=x.device)
        F, C = triton.next_power_of_2(features), triton.next_power_of_2(classes)
        softmax_kernel[(rows,)](x, self.linear.weight, self.linear.bias, out, features, classes, F=F, C=C)
        return out
