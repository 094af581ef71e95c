# ruff: noqa: ANN001, PLR0917  Triton reads a kernel's annotations itself, and its arguments in order
"""The output layer's results on a GPU: one pass over a chunk's logits in each direction, in Triton.

K positions by V entries of the vocabulary, z = logit / temperature in fp32, p = softmax(z), H its entropy in nats.
`logprobs` imports this module only when it is used, so that computing on a CPU needs no Triton.
"""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

if TYPE_CHECKING:
    from warpsmith.policy.logprobs import Work

BLOCK = 4096
# Fused multiply-adds are set explicitly, since Triton 3.9 otherwise warns.
LAUNCH_OPTIONS = {"num_warps": 8, "enable_fp_fusion": True}
# Start of the running maximum: finite, since inf - inf is NaN, and below any real logit.
_LOWEST = tl.constexpr(-3.0e38)


# Kernels -----------------------------------------------------------------------------------------------------------


@triton.jit(do_not_specialize_on_alignment=["targets_ptr", "figures_ptr"])  # type: ignore[untyped-decorator]
def _statistics_kernel(  # type: ignore[no-untyped-def]
    logits_ptr,
    targets_ptr,
    figures_ptr,
    stride,
    vocabulary,
    inverse_temperature,
    BLOCK: tl.constexpr,
) -> None:
    """One row per program. Sums are relative to the running maximum, one per lane of the block, until the end."""
    row = tl.program_id(0).to(tl.int64)
    row_ptr = logits_ptr + row * stride
    lanes = tl.arange(0, BLOCK)
    top = tl.full([], _LOWEST, tl.float32)
    mass = tl.zeros([BLOCK], tl.float32)  # sum of exp(z - top)
    moment = tl.zeros([BLOCK], tl.float32)  # sum of exp(z - top) * (z - top)
    for start in range(0, vocabulary, BLOCK):
        at = start + lanes
        z = tl.load(row_ptr + at, mask=at < vocabulary, other=float("-inf")).to(tl.float32) * inverse_temperature
        new_top = tl.maximum(top, tl.max(z, axis=0))
        fall = top - new_top
        shrink = tl.exp(fall)
        below = z - new_top
        weight = tl.exp(below)
        moment = shrink * (moment + fall * mass)
        # A logit of -inf contributes nothing: 0 * -inf would be NaN.
        moment += tl.where(weight > 0, weight * below, 0.0)
        mass = shrink * mass + weight
        top = new_top
    total = tl.sum(mass, axis=0)
    log_total = tl.log(total)
    target = tl.load(targets_ptr + row)
    chosen = tl.load(row_ptr + target).to(tl.float32) * inverse_temperature
    tl.store(figures_ptr + 3 * row, chosen - top - log_total)
    tl.store(figures_ptr + 3 * row + 1, log_total - tl.sum(moment, axis=0) / total)
    tl.store(figures_ptr + 3 * row + 2, top + log_total)


@triton.jit(do_not_specialize_on_alignment=["targets_ptr", "figures_ptr", "grad_ptr"])  # type: ignore[untyped-decorator]
def _gradient_kernel(  # type: ignore[no-untyped-def]
    logits_ptr,
    targets_ptr,
    figures_ptr,
    grad_ptr,
    stride,
    vocabulary,
    inverse_temperature,
    BLOCK: tl.constexpr,
) -> None:
    """One block of one row per program: reads its logits and overwrites them with their gradient."""
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < vocabulary
    place = logits_ptr + row * stride + at
    target = tl.load(targets_ptr + row)
    entropy = tl.load(figures_ptr + 3 * row + 1)
    lse = tl.load(figures_ptr + 3 * row + 2)
    logprob_grad = tl.load(grad_ptr + 2 * row)
    entropy_grad = tl.load(grad_ptr + 2 * row + 1)
    logp = tl.load(place, mask=inside, other=float("-inf")).to(tl.float32) * inverse_temperature - lse
    p = tl.exp(logp)
    spread = tl.where(p > 0, p * (logp + entropy), 0.0)
    grad = logprob_grad * (tl.where(at == target, 1.0, 0.0) - p) - entropy_grad * spread
    tl.store(place, (grad * inverse_temperature).to(logits_ptr.dtype.element_ty), mask=inside)


# Over one chunk ----------------------------------------------------------------------------------------------------


def statistics(logits_KV: Tensor, targets_K: Tensor, temperature: float) -> Tensor:
    """Return [K, 3] fp32, in nats: log-probability of each row's target, entropy, and logsumexp.

    Args:
        logits_KV: bf16, fp16 or fp32, each row contiguous; not changed.
        targets_K: int64, contiguous, each in [0, V).
        temperature: the logits are divided by it.
    """
    rows, vocabulary = logits_KV.shape
    figures_K3 = logits_KV.new_empty(rows, 3, dtype=torch.float32)
    if rows:
        with _on_device_of(logits_KV):
            _statistics_kernel[(rows,)](
                logits_KV, targets_K, figures_K3, logits_KV.stride(0), vocabulary, 1 / temperature,
                BLOCK=BLOCK, **LAUNCH_OPTIONS,
            )  # fmt: skip
    return figures_K3


def gradient_in_place(
    logits_KV: Tensor, targets_K: Tensor, temperature: float, figures_K3: Tensor, grad_K2: Tensor
) -> None:
    """Overwrite the logits with their gradient, in their dtype.

    With g0 and g1 the gradients at log-probability and entropy: (g0 (onehot - p) - g1 p (log p + H)) / temperature.

    Args:
        logits_KV: as passed to `statistics`.
        targets_K: as passed to `statistics`.
        temperature: as passed to `statistics`.
        figures_K3: what `statistics` returned, contiguous.
        grad_K2: [g0, g1] in fp32, contiguous.
    """
    rows, vocabulary = logits_KV.shape
    if rows:
        with _on_device_of(logits_KV):
            _gradient_kernel[(rows, triton.cdiv(vocabulary, BLOCK))](
                logits_KV, targets_K, figures_K3, grad_K2, logits_KV.stride(0), vocabulary, 1 / temperature,
                BLOCK=BLOCK, **LAUNCH_OPTIONS,
            )  # fmt: skip


def _on_device_of(tensor: Tensor) -> AbstractContextManager[None]:
    """Triton launches on the current device, which may not be the tensor's."""
    return torch.cuda.device_of(tensor)  # type: ignore[no-untyped-call]


# The autograd function ---------------------------------------------------------------------------------------------


class FusedLinearStats(torch.autograd.Function):
    """Computes what `logprobs.LinearStats` does with one copy of a chunk's logits, in the matrix product's dtype.

    The backward pass also holds the weight's gradient in fp32, to which every chunk's product is added, and what was
    saved: 12 bytes per token. The gradient at the logits is rounded to the weight's dtype before the products.
    """

    @staticmethod
    def forward(ctx: Any, hidden_MC: Tensor, weight_VC: Tensor, bias_V: Tensor | None, work: "Work") -> Tensor:
        figures_M3 = hidden_MC.new_empty(len(hidden_MC), 3, dtype=torch.float32)
        for rows in work.chunks():
            logits_KV = nn.functional.linear(hidden_MC[rows], weight_VC, bias_V)
            figures_M3[rows] = statistics(logits_KV, work.targets[rows], work.temperature)
            del logits_KV  # before the next chunk's are allocated
        ctx.save_for_backward(hidden_MC, weight_VC, bias_V, figures_M3)
        ctx.work = work
        return figures_M3[:, :2].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_M2: Tensor) -> tuple[Tensor | None, ...]:
        hidden_MC, weight_VC, bias_V, figures_M3 = ctx.saved_tensors
        work: Work = ctx.work
        grad_M2 = grad_M2.float().contiguous()
        want_hidden, want_weight, want_bias = ctx.needs_input_grad[:3]
        hidden_grad = torch.empty_like(hidden_MC) if want_hidden else None
        weight_grad = torch.zeros_like(weight_VC, dtype=torch.float32) if want_weight else None
        bias_grad = torch.zeros_like(bias_V, dtype=torch.float32) if want_bias else None
        for rows in work.chunks():
            chunk_KV = nn.functional.linear(hidden_MC[rows], weight_VC, bias_V)
            gradient_in_place(chunk_KV, work.targets[rows], work.temperature, figures_M3[rows], grad_M2[rows])
            if hidden_grad is not None:
                torch.mm(chunk_KV, weight_VC, out=hidden_grad[rows])
            if weight_grad is not None:
                _add_product(weight_grad, chunk_KV, hidden_MC[rows])
            if bias_grad is not None:
                bias_grad += chunk_KV.sum(0, dtype=torch.float32)
            del chunk_KV  # before the next chunk's are allocated
        return hidden_grad, _like(weight_grad, weight_VC), _like(bias_grad, bias_V), None


def _add_product(sum_VC: Tensor, left_KV: Tensor, right_KC: Tensor) -> None:
    """Add left^T right to an fp32 sum. On a GPU the matrix product adds directly, without a temporary array."""
    if left_KV.dtype == sum_VC.dtype:
        sum_VC.addmm_(left_KV.T, right_KC)
    elif sum_VC.is_cuda:
        torch.addmm(sum_VC, left_KV.T, right_KC, out_dtype=sum_VC.dtype, out=sum_VC)
    else:  # torch has no mixed-dtype product on a CPU
        sum_VC += left_KV.T @ right_KC


def _like(grad: Tensor | None, parameter: Tensor | None) -> Tensor | None:
    return None if grad is None or parameter is None else grad.to(parameter.dtype)
