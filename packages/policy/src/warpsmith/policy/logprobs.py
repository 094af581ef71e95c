# ruff: noqa: N815  the suffix is the tensor's shape
"""Log-probabilities and entropies of given tokens, without ever holding all logits in fp32.

The model's own forward runs, so wrappers (DeepSpeed, DDP, peft) see an ordinary call; only its output projection is
replaced: it returns two numbers per position instead of a row of logits, and processes the positions in chunks.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from warpsmith.policy.attention import VARLEN, borders
from warpsmith.policy.errors import UnsupportedModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from warpsmith.policy.sequence_parallel import Split

GREEDY_BELOW = 1e-5
"""Below this temperature vLLM samples greedily and then reports log-probs of the unscaled logits."""

LOGITS_AT_ONCE = 2**25
"""Default limit of logits in memory at a time, in elements: 128 MiB in fp32, and about seven such arrays at once."""

FUSED_LOGITS_AT_ONCE = 2**28
"""The same with the kernels of `head_kernels`: one array in the model's dtype, 512 MiB in bf16."""

# Config keys of models that change logits after the output projection, with the value that changes nothing.
_LOGIT_CHANGERS = {
    "final_logit_softcapping": None,
    "logit_scale": 1.0,
    "logits_scaling": 1.0,
    "lm_head_multiplier": 1.0,
}
_FUSED_DTYPES = {torch.bfloat16, torch.float16, torch.float32}
_PACKABLE_LAYERS = {"full_attention", "sliding_attention", "chunked_attention"}


def token_logprobs(
    model: nn.Module,
    input_ids_BT: Tensor,
    attention_mask_BT: Tensor,
    temperature: float = 1.0,
    position_ids_BT: Tensor | None = None,
    *,
    select_BT: Tensor | None = None,
    logits_at_once: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return log p(token) of every given token after the first of its sequence, and the entropy of its distribution.

    Args:
        model: a transformers causal language model, bare or wrapped by DeepSpeed, DDP or peft.
        input_ids_BT: token ids.
        attention_mask_BT: 1 for tokens, 0 for padding, on either side.
        temperature: the sampler's; logits are divided by it, as for vLLM's `processed_logprobs`. Values below 1e-5
            count as 1, as in vLLM.
        position_ids_BT: positions that restart at each new sequence of a packed row; None for one sequence per row.
            A sequence attends only to itself.
        select_BT: 1 where results are needed; elsewhere both are 0 and no logits are computed.
        logits_at_once: limit of logits in memory at a time, in elements. Default: 2^28 on a GPU with a plain output
            layer in bf16, fp16 or fp32, where Triton kernels hold one array of them in that dtype (512 MiB in bf16,
            1 GiB in fp32); elsewhere 2^25, of which up to seven fp32 arrays exist at once (896 MiB).

    Returns:
        `logprobs_BT`, `entropy_BT`: fp32, in nats. [:, t] holds log p(ids[t] | ids[<t]) and the entropy of that
        distribution; 0 for the first token of a sequence and for padding. Both have gradients.

    Raises:
        UnsupportedModelError: the model changes its logits after the projection, or would mix packed sequences.
    """
    found = token_figures(
        model,
        input_ids_BT,
        attention_mask_BT,
        temperature,
        position_ids_BT,
        select_BT=select_BT,
        logits_at_once=logits_at_once,
    )
    return found.logprobs_BT, found.entropy_BT


class TokenFigures(NamedTuple):
    """Per-token results of one forward pass; each (B, T) in fp32.

    `value_BT`, like the others, is indexed by the predicted token: it is the value of the hidden state that predicts
    the token; None without a value head. `greedy_BT` is 1 where the token is the likeliest one, otherwise 0; None
    unless requested.
    """

    logprobs_BT: Tensor
    entropy_BT: Tensor
    value_BT: Tensor | None
    greedy_BT: Tensor | None = None


def token_figures(
    model: nn.Module,
    input_ids_BT: Tensor,
    attention_mask_BT: Tensor,
    temperature: float = 1.0,
    position_ids_BT: Tensor | None = None,
    *,
    select_BT: Tensor | None = None,
    value_head: nn.Module | None = None,
    greedy: bool = False,
    logits_at_once: int | None = None,
    split: "Split | None" = None,
) -> TokenFigures:
    """Return the results of `token_logprobs`, and those of a value head from the same forward pass.

    Args:
        value_head: maps hidden states (N, C) to values (N, 1) in fp32; called inside the model's forward.
        greedy: also return which tokens are the likeliest; computes the logits once more, without a gradient.
        split: the ranks that share these rows, the same on each; the call is then collective, each rank computes its
            part of the tokens, and all of them get all results. For `varlen` attention alone.

    The other arguments and the errors are those of `token_logprobs`.
    """
    base = unwrap(model)
    _refuse_logit_changers(base)
    starts_BT = sequence_starts(attention_mask_BT, position_ids_BT)
    wanted_BT = attention_mask_BT.bool() & ~starts_BT
    if select_BT is not None:
        wanted_BT &= select_BT.bool()
    if bool((starts_BT & attention_mask_BT.bool()).sum(1).max() > 1):
        _refuse_unpackable(base)
    # Position t predicts token t + 1; the last position predicts nothing.
    sizes = (logits_at_once, int(base.config.get_text_config().vocab_size))
    targets_BT, predicts_BT = _part(_next(input_ids_BT), split), _part(_next(wanted_BT), split)
    head = _Head(targets_BT, predicts_BT, _effective(temperature), sizes, value_head, greedy=greedy)
    with _returning_logprobs(base, head):
        stats_BTF = _forward(model, base, input_ids_BT, starts_BT, split)
    if stats_BTF.shape != (*input_ids_BT.shape, head.figures):
        raise UnsupportedModelError(
            f"{type(base).__name__} returned logits of shape {tuple(stats_BTF.shape)}; {head.figures} figures per "
            "token were expected.",
            "Use a causal language model whose forward ends in its output projection.",
        )
    logprobs_BT, entropy_BT, *more = nn.functional.pad(stats_BTF[:, :-1], (0, 0, 1, 0)).unbind(-1)
    greedy_BT = more.pop() if greedy else None
    return TokenFigures(logprobs_BT, entropy_BT, more[0] if more else None, greedy_BT)


# Packed rows -----------------------------------------------------------------------------------------------------


def sequence_starts(attention_mask_BT: Tensor, position_ids_BT: Tensor | None = None) -> Tensor:
    """Return True where a sequence starts: where positions restart, or where padding ends.

    Padding after a sequence belongs to it: causal attention hides it.
    """
    mask_BT = attention_mask_BT.bool()
    starts_BT = torch.zeros_like(mask_BT)
    starts_BT[:, 0] = True
    starts_BT[:, 1:] = mask_BT[:, 1:] & ~mask_BT[:, :-1]
    if position_ids_BT is not None:
        starts_BT[:, 1:] |= mask_BT[:, 1:] & (position_ids_BT[:, 1:] != position_ids_BT[:, :-1] + 1)
    return starts_BT


def restarting_positions(starts_BT: Tensor) -> Tensor:
    """Return positions that restart from 0 at every start."""
    index_T = torch.arange(starts_BT.shape[1], device=starts_BT.device)
    return index_T - torch.where(starts_BT, index_T, 0).cummax(1).values


def _forward(
    model: nn.Module, base: "PreTrainedModel", input_ids_BT: Tensor, starts_BT: Tensor, split: "Split | None"
) -> Tensor:
    """Run the model with restarting positions and no mask, from which transformers separates the sequences.

    Flash attention supports this for one row only, so rows are concatenated for it. `varlen` gets the borders.
    """
    shape, position_ids_BT = input_ids_BT.shape, restarting_positions(starts_BT)
    attention = base.config._attn_implementation
    if attention.startswith("flash") and shape[0] > 1:
        input_ids_BT, position_ids_BT = input_ids_BT.reshape(1, -1), position_ids_BT.reshape(1, -1)
    if split is not None:
        return _forward_part(model, base, input_ids_BT, starts_BT, split)
    varlen = borders(starts_BT) if attention == VARLEN else {}
    output = model(input_ids=input_ids_BT, position_ids=position_ids_BT, attention_mask=None, use_cache=False, **varlen)
    logits: Tensor = output.logits
    return logits.reshape(*shape, -1)


def _forward_part(
    model: nn.Module, base: "PreTrainedModel", input_ids_BT: Tensor, starts_BT: Tensor, split: "Split"
) -> Tensor:
    """Run the model on this rank's part of the tokens; return the results of all parts.

    Positions and borders are those of the whole rows: a part begins anywhere in a sequence. Padding to a multiple of
    the ranks belongs to the last sequence, whose tokens come before it and do not see it.
    """
    if base.config._attn_implementation != VARLEN:
        raise UnsupportedModelError(
            f"Rows are shared by {split.size} ranks, and {base.config._attn_implementation} attention would see only a "
            "part of each.",
            'Set policy.attention = "varlen".',
        )
    length, starts_BT = input_ids_BT.shape[1], split.pad(starts_BT)
    output = model(
        input_ids=split.part(split.pad(input_ids_BT)),
        position_ids=split.part(restarting_positions(starts_BT)),
        attention_mask=None,
        use_cache=False,
        split=split,
        **borders(starts_BT),
    )
    return split.whole(output.logits)[:, :length]


def _next(values_BT: Tensor) -> Tensor:
    """Return at each position what stands at the next one, 0 at the last."""
    return nn.functional.pad(values_BT[:, 1:], (0, 1))


def _part(values_BT: Tensor, split: "Split | None") -> Tensor:
    return values_BT if split is None else split.part(split.pad(values_BT))


def _refuse_unpackable(base: "PreTrainedModel") -> None:
    """Reject a model that takes no positions, or carries state from one sequence into the next."""
    if "position_ids" not in signature(base.forward).parameters:
        raise UnsupportedModelError(
            f"{type(base).__name__} takes no positions, so it cannot separate the sequences of a packed row.",
            "Use one sequence per row, padded on the right.",
        )
    kinds = set(base.config.to_dict().get("layer_types") or ()) - _PACKABLE_LAYERS
    if kinds:
        raise UnsupportedModelError(
            f"{type(base).__name__} has {', '.join(sorted(kinds))} layers, which mix packed sequences.",
            "Use one sequence per row, padded on the right.",
        )


# The output projection -------------------------------------------------------------------------------------------


def unwrap(model: nn.Module) -> "PreTrainedModel":
    """Return the transformers model inside DeepSpeed, DDP and peft wrappers.

    Raises:
        UnsupportedModelError: there is none.
    """
    from transformers import PreTrainedModel

    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            return module
    raise UnsupportedModelError(
        f"{type(model).__name__} contains no transformers model.", "Pass a model loaded by Policy.load."
    )


def _effective(temperature: float) -> float:
    if not 0 <= temperature < float("inf"):
        raise UnsupportedModelError(f"The temperature is {temperature}.", "Pass the sampler's temperature, 0 or more.")
    return 1.0 if temperature < GREEDY_BELOW else temperature


def _refuse_logit_changers(base: "PreTrainedModel") -> None:
    config = base.config.to_dict()
    for key, neutral in _LOGIT_CHANGERS.items():
        if config.get(key, neutral) not in (neutral, None):
            raise UnsupportedModelError(
                f"{type(base).__name__} changes its logits after the projection ({key}={config[key]}).",
                "Use a model without it; Qwen2.5, Qwen3 and Llama have none.",
            )


@contextmanager
def _returning_logprobs(base: "PreTrainedModel", head: "_Head") -> Iterator[None]:
    """Make the output projection return log-probs and entropies inside the block."""
    projection = base.get_output_embeddings()
    if projection is None:
        raise UnsupportedModelError(f"{type(base).__name__} has no output projection.", "Use a causal language model.")
    previous = projection.__dict__.get("forward")
    original = projection.forward
    projection.forward = lambda hidden: head(hidden, projection, original)
    try:
        yield
    finally:
        del projection.forward
        if previous is not None:
            projection.forward = previous


class _Head:
    """Replaces the output projection for one forward pass."""

    def __init__(
        self,
        targets_BT: Tensor,
        wanted_BT: Tensor,
        temperature: float,
        sizes: tuple[int | None, int],
        value_head: nn.Module | None,
        *,
        greedy: bool = False,
    ) -> None:
        self.targets_BT = targets_BT
        self.wanted_BT = wanted_BT
        self.temperature = temperature
        self.logits_at_once, self.vocabulary = sizes
        self.value_head = value_head
        self.greedy = greedy

    @property
    def figures(self) -> int:
        """Number of results per token."""
        return 2 + (self.value_head is not None) + self.greedy

    def __call__(self, hidden_BTC: Tensor, projection: nn.Module, original: Callable[[Tensor], Tensor]) -> Tensor:
        """Return [B, T, F] fp32: log-prob of the next token, entropy, maybe value and greedy; 0 where not selected."""
        wanted_N = self.wanted_BT.reshape(-1).nonzero().squeeze(1)
        flat_NC = hidden_BTC.reshape(-1, hidden_BTC.shape[-1])
        hidden_MC = flat_NC[wanted_N]
        targets_M = self.targets_BT.reshape(-1)[wanted_N]
        fused = is_fusable(hidden_MC, projection)
        at_once = self.logits_at_once
        if at_once is None:
            at_once = FUSED_LOGITS_AT_ONCE if fused else LOGITS_AT_ONCE
        work = Work(targets_M, self.temperature, max(1, at_once // self.vocabulary), fused)
        if type(projection) is nn.Linear:
            stats_M2 = linear_stats(hidden_MC, projection.weight, projection.bias, work)
        else:
            stats_M2 = _module_stats(hidden_MC, original, work)
        stats_MF = stats_M2
        if self.value_head is not None:
            stats_MF = torch.cat([stats_M2, self.value_head(hidden_MC).to(stats_M2.dtype)], dim=-1)
        if self.greedy:
            stats_MF = torch.cat([stats_MF, _greedy(hidden_MC, original, work).to(stats_MF.dtype)], dim=-1)
        stats_NF = stats_MF.new_zeros(flat_NC.shape[0], self.figures).index_copy(0, wanted_N, stats_MF)
        return stats_NF.float().reshape(*hidden_BTC.shape[:2], self.figures)


class Work(NamedTuple):
    """The tokens to score, and how: `size` positions at a time, with the kernels of `head_kernels` or torch's own."""

    targets: Tensor
    temperature: float
    size: int
    fused: bool = False

    def chunks(self) -> Iterator[slice]:
        """Return the spans of at most `size` targets, in order."""
        return (slice(i, i + self.size) for i in range(0, len(self.targets), self.size))


def _module_stats(hidden_MC: Tensor, projection_forward: Callable[[Tensor], Tensor], work: Work) -> Tensor:
    """Use a projection that is not a plain linear layer (adapted, quantised) through its own forward, recomputed."""

    def of_chunk(hidden_KC: Tensor, targets_K: Tensor) -> Tensor:
        return _stats(_wide(projection_forward(hidden_KC)) / work.temperature, targets_K)

    done = [checkpoint(of_chunk, hidden_MC[rows], work.targets[rows], use_reentrant=False) for rows in work.chunks()]
    return torch.cat(done) if done else of_chunk(hidden_MC, work.targets)


@torch.no_grad()
def _greedy(hidden_MC: Tensor, projection_forward: Callable[[Tensor], Tensor], work: Work) -> Tensor:
    """Return [M, 1]: whether each target is the likeliest token."""
    found = [projection_forward(hidden_MC[rows]).argmax(-1) == work.targets[rows] for rows in work.chunks()]
    return torch.cat(found)[:, None] if found else hidden_MC.new_zeros(0, 1)


def linear_stats(hidden_MC: Tensor, weight_VC: Tensor, bias_V: Tensor | None, work: Work) -> Tensor:
    """Return [M, 2]: the log-probability of each target under a linear output layer, and the entropy there.

    Differentiable by `hidden_MC` [M, C], `weight_VC` [V, C] and `bias_V` [V].
    """
    function: type[torch.autograd.Function] = LinearStats
    if work.fused:
        from warpsmith.policy import head_kernels

        function = head_kernels.FusedLinearStats
    stats_M2: Tensor = function.apply(hidden_MC, weight_VC, bias_V, work)  # type: ignore[no-untyped-call]
    return stats_M2


def is_fusable(hidden_MC: Tensor, projection: nn.Module) -> bool:
    """Return whether `head_kernels` supports this projection: plain, on a GPU, all in one supported dtype."""
    if type(projection) is not nn.Linear or not hidden_MC.is_cuda or torch.is_autocast_enabled("cuda"):
        return False
    dtypes = {hidden_MC.dtype} | {parameter.dtype for parameter in projection.parameters(recurse=False)}
    return len(dtypes) == 1 and dtypes <= _FUSED_DTYPES and _has_triton()


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def _stats(scaled_KV: Tensor, targets_K: Tensor) -> Tensor:
    """Return [K, 2]: log-softmax at the targets, and the entropy."""
    lse_K = scaled_KV.logsumexp(-1)
    chosen_K = scaled_KV.gather(-1, targets_K[:, None]).squeeze(-1)
    mean_K = ((scaled_KV - lse_K[:, None]).exp() * scaled_KV).sum(-1)
    return torch.stack([chosen_K - lse_K, lse_K - mean_K], -1)


class LinearStats(torch.autograd.Function):
    """Linear layer, division by the temperature, log-softmax and entropy, one chunk of positions at a time.

    The backward pass recomputes a chunk's logits. Weight gradients are summed in fp32 over the chunks.
    With p the softmax, H the entropy: d logp / dz = onehot - p, and dH / dz = -p (log p + H).
    """

    @staticmethod
    def forward(ctx: Any, hidden_MC: Tensor, weight_VC: Tensor, bias_V: Tensor | None, work: Work) -> Tensor:
        ctx.save_for_backward(hidden_MC, weight_VC, bias_V)
        ctx.work = work
        stats_M2 = hidden_MC.new_empty(len(hidden_MC), 2, dtype=_wide_type(hidden_MC))
        for rows in work.chunks():
            scaled_KV = _wide(nn.functional.linear(hidden_MC[rows], weight_VC, bias_V)) / work.temperature
            stats_M2[rows] = _stats(scaled_KV, work.targets[rows])
        return stats_M2

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_M2: Tensor) -> tuple[Tensor | None, ...]:
        hidden_MC, weight_VC, bias_V = ctx.saved_tensors
        work: Work = ctx.work
        want_hidden, want_weight, want_bias = ctx.needs_input_grad[:3]
        hidden_grad = torch.empty_like(hidden_MC) if want_hidden else None
        weight_grad = torch.zeros_like(weight_VC, dtype=_wide_type(weight_VC)) if want_weight else None
        bias_grad = torch.zeros_like(bias_V, dtype=_wide_type(bias_V)) if want_bias else None
        for rows in work.chunks():
            scaled_KV = _wide(nn.functional.linear(hidden_MC[rows], weight_VC, bias_V)) / work.temperature
            logits_grad_KV = _logits_grad(scaled_KV, work.targets[rows], grad_M2[rows]) / work.temperature
            narrow_KV = logits_grad_KV.to(weight_VC.dtype)
            if hidden_grad is not None:
                hidden_grad[rows] = narrow_KV @ weight_VC
            if weight_grad is not None:
                weight_grad += narrow_KV.T @ hidden_MC[rows]
            if bias_grad is not None:
                bias_grad += logits_grad_KV.sum(0)
        return hidden_grad, _like(weight_grad, weight_VC), _like(bias_grad, bias_V), None


def _logits_grad(scaled_KV: Tensor, targets_K: Tensor, grad_K2: Tensor) -> Tensor:
    """Return the gradient at the scaled logits from those at log-prob and entropy."""
    logp_KV = scaled_KV.log_softmax(-1)
    p_KV = logp_KV.exp()
    entropy_K1 = -(p_KV * logp_KV).sum(-1, keepdim=True)
    grad_KV = -p_KV * (grad_K2[:, :1] + grad_K2[:, 1:] * (logp_KV + entropy_K1))
    return grad_KV.scatter_add(-1, targets_K[:, None], grad_K2[:, :1])


def _wide_type(tensor: Tensor) -> torch.dtype:
    """Return fp32, or fp64 for fp64."""
    return torch.promote_types(tensor.dtype, torch.float32)


def _wide(tensor: Tensor) -> Tensor:
    return tensor.to(_wide_type(tensor))


def _like(grad: Tensor | None, parameter: Tensor | None) -> Tensor | None:
    return None if grad is None or parameter is None else grad.to(parameter.dtype)
