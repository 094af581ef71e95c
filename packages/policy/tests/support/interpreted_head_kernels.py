"""Run the output layer's kernels in Triton's interpreter and print how far each case is from double precision.

A program of its own because Triton reads TRITON_INTERPRET when it is imported. Takes the directory of a tiny model;
prints one JSON object, by the name of the case its errors in units of what rounding allows: above 1 is wrong.
"""

import json
import sys
import warnings

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from warpsmith.policy import head_kernels, logprobs
from warpsmith.policy.head_kernels import FusedLinearStats, gradient_in_place, statistics
from warpsmith.policy.loading import load_policy

FP32_STEP = torch.finfo(torch.float32).eps


def worst(error, bound):
    """The largest error in units of its bound; an error that is no number counts as infinite."""
    ratio = (error / bound).nan_to_num(float("inf"))
    return ratio.max().item() if ratio.numel() else 0.0


def exact(logits_KV, targets_K, temperature):
    """Log-probability, entropy and logsumexp in double precision, and what of z the rounding of fp32 is relative to."""
    z_KV = logits_KV.double() / temperature
    lse_K1 = z_KV.logsumexp(-1, keepdim=True)
    logp_KV = z_KV - lse_K1
    p_KV = logp_KV.exp()
    surprise_KV = torch.where(p_KV > 0, -p_KV * logp_KV, 0.0)
    chosen_K = logp_KV.gather(-1, targets_K[:, None])[:, 0]
    figures_K3 = torch.stack([chosen_K, surprise_KV.sum(-1), lse_K1[:, 0]], -1)
    size = 1 + torch.cat([z_KV[z_KV.isfinite()], lse_K1[:, 0]]).abs().max() if z_KV.numel() else 1.0
    return figures_K3, logp_KV, p_KV, size


def kernel_errors(logits_KV, targets_K, temperature, grad_K2):
    """Errors of both kernels on one chunk, over which the gradient is written."""
    expected_K3, logp_KV, p_KV, size = exact(logits_KV, targets_K, temperature)
    before = logits_KV.clone()
    got_K3 = statistics(logits_KV, targets_K, temperature)
    assert torch.equal(logits_KV, before)
    assert got_K3.dtype == torch.float32
    g0_K1, g1_K1 = grad_K2.double().split(1, -1)
    onehot_KV = torch.nn.functional.one_hot(targets_K, logits_KV.shape[-1]).double()
    excess_KV = torch.where(p_KV > 0, logp_KV + expected_K3[:, 1:2], 0.0)
    expected_KV = (g0_K1 * (onehot_KV - p_KV) - g1_K1 * p_KV * excess_KV) / temperature
    gradient_in_place(logits_KV, targets_K, temperature, got_K3, grad_K2)
    # The terms' sizes, since they may cancel; and the smallest number of the dtype, or of p in fp32.
    terms_KV = g0_K1.abs() * (onehot_KV + p_KV) + g1_K1.abs() * p_KV * (excess_KV.abs() + 1)
    limits = torch.finfo(logits_KV.dtype)
    bound_KV = (limits.eps + 4 * FP32_STEP * size) * terms_KV / temperature + max(limits.tiny * limits.eps, 1e-34)
    figures_error = worst((got_K3 - expected_K3).abs(), 2 * FP32_STEP * (size + expected_K3.abs().nan_to_num(0)))
    return {"figures": figures_error, "gradient": worst((logits_KV.double() - expected_KV).abs(), bound_KV)}


def random_chunk(rows, vocabulary, dtype="float32", scale=4.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits_KV = (scale * torch.randn(rows, vocabulary, generator=generator)).to(getattr(torch, dtype))
    targets_K = torch.randint(0, vocabulary, (rows,), generator=generator)
    targets_K[:1], targets_K[1:2] = 0, vocabulary - 1
    return logits_KV, targets_K, torch.randn(rows, 2, generator=generator)


def chunk_cases():
    """Name and operands of every case of the kernels."""
    for dtype in ("float32", "float16", "bfloat16"):
        for vocabulary in (1, 4096, 9003):
            for temperature in (0.3, 1.0, 1.7):
                logits_KV, targets_K, grad_K2 = random_chunk(3, vocabulary, dtype)
                yield f"{dtype}, V = {vocabulary}, T = {temperature}", (logits_KV, targets_K, temperature, grad_K2)
    for rows in (0, 1):
        logits_KV, targets_K, grad_K2 = random_chunk(rows, 5003)
        yield f"{rows} rows", (logits_KV, targets_K, 0.7, grad_K2)
    for left_out in (0, 1):
        logits_KV, targets_K, grad_K2 = random_chunk(3, 5003)
        grad_K2[:, left_out] = 0
        yield f"g{left_out} = 0", (logits_KV, targets_K, 0.7, grad_K2)
    for scale in (1e-3, 1e2, 1e4):
        logits_KV, targets_K, grad_K2 = random_chunk(3, 5003, scale=scale)
        yield f"logits of {scale:g}", (logits_KV, targets_K, 1.0, grad_K2)
    for name, rise in (("rising", 300), ("falling", -300)):  # the maximum changes from block to block, or never again
        logits_KV, targets_K, grad_K2 = random_chunk(4, 9003)
        yield name, (logits_KV + torch.linspace(0, rise, 9003), targets_K, 1.3, grad_K2)
    logits_KV, targets_K, grad_K2 = random_chunk(4, 9003)
    logits_KV[:, 1:5000], logits_KV[2, 0] = float("-inf"), float("-inf")  # in row 2 the whole first block
    targets_K[2:] = 6000
    yield "-inf", (logits_KV, targets_K, 0.7, grad_K2)
    wide_KV, targets_K, grad_K2 = random_chunk(3, 6000)
    yield "rows apart", (wide_KV[:, :5003], targets_K.clamp(max=5002), 0.7, grad_K2)


def function_errors(dtype, *, bias, wanted, tokens=5):
    """Errors of the autograd function against the same in double precision, 2 positions at a time."""
    generator = torch.Generator().manual_seed(1)
    shapes = [(tokens, 8), (4100, 8)] + [(4100,)] * bias
    operands = [torch.randn(s, generator=generator).to(getattr(torch, dtype)) for s in shapes]
    targets = torch.randint(0, 4100, (tokens,), generator=generator)
    weights = torch.randn(tokens, 2, generator=generator)
    results, gradients = [], []
    for function, work in (
        (FusedLinearStats, logprobs.Work(targets, 0.7, 2, fused=True)),
        (logprobs.LinearStats, logprobs.Work(targets, 0.7, tokens or 1)),
    ):
        leaves = [t.clone() if function is FusedLinearStats else t.double() for t in operands]
        for leaf, want in zip(leaves, wanted, strict=False):
            leaf.requires_grad_(want)
        stats = function.apply(leaves[0], leaves[1], leaves[2] if bias else None, work)
        (stats * weights).sum().backward()
        results.append(stats.detach().double())
        gradients.append([leaf.grad for leaf in leaves])
        assert [leaf.grad is not None for leaf in leaves] == list(wanted[: len(leaves)])
    # Logits, their gradient and every product are rounded to the dtype; in fp32 what counts is the exponent, some 16.
    step = (32 if dtype == "float32" else 8) * torch.finfo(operands[0].dtype).eps
    pairs = [(one.double(), other) for one, other in zip(*gradients, strict=True) if one is not None]
    return {
        "figures": worst((results[0] - results[1]).abs(), 2 * step * (1 + results[1].abs())),
        "gradient": max(((one - other).norm() / (step * other.norm() + 1e-30)).item() for one, other in pairs),
    }


class Rows(TorchDispatchMode):
    """Notes of how many rows over the vocabulary the arrays are that matrix products make."""

    def __init__(self, vocabulary):
        super().__init__()
        self.vocabulary, self.made = vocabulary, []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if function is torch.ops.aten.mm.default and result.shape[-1] == self.vocabulary:
            self.made.append(len(result))
        return result


def model_errors(directory):
    """Errors of `token_logprobs` against itself with torch's operations, and the chunks that the kernels got."""
    model = load_policy(directory).model
    vocabulary = model.config.vocab_size
    ids = torch.randint(3, vocabulary, (2, 11), generator=torch.Generator().manual_seed(0))
    weights = torch.randn(2, *ids.shape, generator=torch.Generator().manual_seed(1))
    plain = logprobs.is_fusable
    found = []
    for fusable in (plain, lambda hidden, projection: type(projection) is torch.nn.Linear):
        logprobs.is_fusable = fusable
        with Rows(vocabulary) as rows:
            stats = torch.stack(
                logprobs.token_logprobs(model, ids, torch.ones_like(ids), 0.7, logits_at_once=8 * vocabulary)
            )
            (stats * weights).sum().backward()
        found.append((stats.detach(), [p.grad.clone() for p in model.parameters()]))
        model.zero_grad()
    logprobs.is_fusable = plain
    (expected, gradients), (got, ours) = found
    return {
        "figures": worst((got - expected).abs(), torch.tensor(1e-5)),
        "gradient": max(((a - b).norm() / (1e-4 * b.norm())).item() for a, b in zip(ours, gradients, strict=True)),
        "chunks": rows.made,
    }


def main(directory):
    warnings.filterwarnings("ignore", module="triton")  # NumPy on what the kernels select away
    found = {name: kernel_errors(*operands) for name, operands in chunk_cases()}
    logits_KV, targets_K, _ = random_chunk(2, 5003)
    logits_KV[1, 4999] = float("nan")
    found["NaN"] = {"is_nan": statistics(logits_KV, targets_K, 1.0).isnan().tolist()}
    for dtype in ("float32", "float16", "bfloat16"):
        for bias in (False, True):
            found[f"function in {dtype}, bias: {bias}"] = function_errors(dtype, bias=bias, wanted=(True,) * 3)
    found["function, frozen weight"] = function_errors("float32", bias=True, wanted=(True, False, False))
    found["function, frozen below"] = function_errors("float32", bias=False, wanted=(False, True))
    found["function, no token"] = function_errors("float32", bias=True, wanted=(True,) * 3, tokens=0)
    found["model"] = model_errors(directory)
    return found


if __name__ == "__main__":
    assert head_kernels.triton.knobs.runtime.interpret
    print(json.dumps(main(sys.argv[1])))
