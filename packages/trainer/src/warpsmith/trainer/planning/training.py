"""Memory of one training rank: one formula per part, with its source.

N is the number of ranks, P the parameters of the model, Q those that are trained (P, or the adapters'), b the bytes of
one in the policy's dtype (4 or 2). Where T ranks share each layer, a rank has a part of its projections (1 / T) and
everything else whole: P and Q are then what it has, and N the ranks that have the same, a T-th of all.
"""

from dataclasses import dataclass

from warpsmith.policy.config import LoraSettings
from warpsmith.policy.kernels import LIGER
from warpsmith.trainer.config.parallel import WHOLE, ParallelSection
from warpsmith.trainer.config.sections import ZeroSection
from warpsmith.trainer.planning.parts import Part
from warpsmith.trainer.planning.shapes import ModelShape
from warpsmith.trainer.planning.sizes import GIB

_FP32 = 4
_MOMENTS = 2 * _FP32
_SUB_GROUP = 10**9
"""Elements that DeepSpeed updates at once under stage 3 (`sub_group_size`, its default)."""
_LIVE_BUCKETS = 20
"""`stage3_max_live_parameters` in buckets; see `distributed.deepspeed_config`."""
LOGITS_AT_ONCE = 2**25
FUSED_LOGITS_AT_ONCE = 2**28
"""Copies of values in `policy.logprobs`, which cannot be imported without torch; a test compares them."""
_LOGIT_COPIES = 7
"""Arrays of the size of one chunk of logits that exist at once in its backward pass, in fp32, if torch's own
operations compute it (`policy.logprobs`)."""


@dataclass(frozen=True)
class Training:
    """What a run trains, and how.

    Attributes:
        shape: shape of the model.
        width: bytes of a parameter.
        zero: how the state is partitioned.
        ranks: number of ranks.
        longest: tokens of the longest row.
        checkpointing: whether activations are recomputed in the backward pass.
        attention: transformers' name.
        kernels: implementation of norms and MLP, `torch` or `liger`.
        lora: adapters, if only they are trained.
        reference: whether there is also a frozen reference policy.
        value_head: whether there is a value head.
        on_gpu: whether each rank computes on its own GPU, or on the host.
        adapters: how many adapters, one for each agent.
        parallel: how ranks share layers and rows.
    """

    shape: ModelShape
    width: int
    zero: ZeroSection
    ranks: int
    longest: int
    checkpointing: bool
    attention: str = "sdpa"
    kernels: str = "torch"
    lora: LoraSettings | None = None
    reference: bool = False
    value_head: bool = False
    on_gpu: bool = True
    adapters: int = 1
    parallel: ParallelSection = WHOLE

    @property
    def whole(self) -> int:
        """P: the parameters of the model that one rank has, before ZeRO spreads them."""
        return self.shape.parameters - self._elsewhere

    @property
    def _elsewhere(self) -> int:
        """Parameters that the other ranks have of those that share layers."""
        return self.shape.projected - self.shape.projected // self.parallel.tensor

    @property
    def replicas(self) -> int:
        """N: the number of ranks with the same parameters; 1 for a team that is not whole, which the plan reports."""
        return max(1, self.ranks // self.parallel.tensor)

    @property
    def held(self) -> int:
        """Q: the parameters with a gradient that one rank has, before ZeRO spreads their state."""
        return self.trained - (self._elsewhere if self.lora is None else 0)

    @property
    def trained(self) -> int:
        """The parameters with a gradient, over all ranks, each once."""
        head = self.shape.hidden + 1 if self.value_head else 0
        return head + (self.shape.parameters if self.lora is None else self.adapters * self.shape.adapters(self.lora))

    @property
    def frozen(self) -> int:
        """Parameters without a gradient."""
        return 0 if self.lora is None else self.shape.parameters

    @property
    def tokens(self) -> int:
        """Tokens of one micro-batch on one rank: the budget, or its part of one row that is longer."""
        return max(self.zero.micro_batch_tokens, -(-self.longest // self.parallel.sequence))

    @property
    def spread(self) -> int:
        """Number of ranks over which parameters are partitioned: N under stage 3, else 1."""
        return self.ranks if self.zero.stage == 3 else 1


def rank_parts(run: Training) -> list[Part]:
    """Return what one rank has on its device."""
    return [part for part in (*state_parts(run), *pass_parts(run)) if part.bytes]


def state_parts(run: Training) -> list[Part]:
    """Return weights, gradients and optimizer state on a rank's device (arXiv 1910.02054, section 5).

    Weights: b P, under stage 3 b P / N. fp32 master weights: 4 Q / N, and none under stage 0. Adam's moments: 8 Q / N
    (8 Q under stage 0). Gradients, accumulated in fp32 by this package's settings of DeepSpeed: 4 Q under stages 0 and
    1, 4 Q / N under 2 and 3; in bf16 under stage 1 also the b Q left by the backward pass. In the update, DeepSpeed
    (0.19.8) has one more copy of a rank's gradients: in fp32 under stages 1 and 2 (stage 1 has then freed the complete
    ones), and under stage 3 of a sub-group of 10^9 elements.
    `tests/planning/test_measured.py` compares these with the tensors of real runs.
    """
    stage, offloaded = run.zero.stage, run.zero.offload_optimizer
    state_over = 1 if stage == 0 else run.replicas
    host_weights = run.zero.offload_parameters and stage == 3
    parts = [
        Part("weights", 0 if host_weights else _weights(run) // run.spread),
        Part("reference policy", _reference(run) // run.spread),
    ]
    if offloaded and stage:
        return parts  # the rest is on the host: see `host_parts`
    return [
        *parts,
        Part("fp32 master weights", 0 if stage == 0 else _FP32 * run.held // state_over),
        Part("Adam's moments", _MOMENTS * run.held // state_over),
        *_gradient_parts(run),
    ]


def _weights(run: Training) -> int:
    frozen_bits = (run.lora.bits if run.lora else None) or 8 * run.width
    return run.frozen * frozen_bits // 8 + run.held * run.width


def _reference(run: Training) -> int:
    """With adapters, the reference policy is the model without them; else it is a separate model."""
    return run.whole * run.width if run.reference and run.lora is None else 0


def _gradient_parts(run: Training) -> list[Part]:
    """Return gradients, and the additional copy in the update."""
    stage, share = run.zero.stage, _FP32 * run.held // run.replicas
    if stage == 0:
        return [Part("gradients", _FP32 * run.held)]
    if stage == 1 and run.width == 2:
        return [Part("gradients", (_FP32 + run.width) * run.held)]
    if stage == 3:
        return [Part("gradients", share), Part("update's copy of gradients", min(share, _FP32 * _SUB_GROUP), "update")]
    copies = 2 if run.width == _FP32 else 1
    held = _FP32 * run.held if stage == 1 else share
    return [Part("gradients", held, "pass"), Part("gradients and their copy", copies * share, "update")]


def pass_parts(run: Training) -> list[Part]:
    """Return the memory of forward and backward passes on a rank's device."""
    return [
        Part("activations", activations(run), "pass"),
        Part("logits of a chunk", logits(run), "pass"),
        Part("output layer's gradient", head_gradient(run), "pass"),
        Part("gathered layers", gathered(run), "pass"),
        Part("gradient bucket", bucket(run), "pass"),
    ]


def layer_token_bytes(run: Training) -> int:
    """Return what one layer saves of one token for its backward pass, in bytes.

    Counted from transformers' Llama, Qwen2 and Qwen3 layers (5.19): each of the two norms saves its input in fp32 (in
    fp32 training that is the residual itself), the normalised input and its output; attention saves queries, keys,
    values and its output, which is the input of `o_proj`, and one fp32 figure per head; Qwen3's norms of queries and
    keys save their inputs in fp32 and normalised; the MLP saves gate, activated gate, up, and their product.

    With liger-kernel (0.8.5) a norm saves only its input and output and one fp32 figure per normalised vector, and the
    MLP no activated gate.
    """
    shape, b, fused, parts = run.shape, run.width, run.kernels == LIGER, run.parallel.tensor
    queries, keys = shape.heads * shape.head_dim // parts, shape.kv_heads * shape.head_dim // parts
    norms = 2 * (_norm_bytes(run, shape.hidden) + b * shape.hidden)
    attention = b * (2 * queries + 2 * keys) + _FP32 * shape.heads // parts
    heads = (shape.heads + shape.kv_heads) // parts
    head_norms = _norm_bytes(run, queries + keys, heads) if shape.normed else 0
    mlp = (3 if fused else 4) * b * shape.intermediate // parts
    return norms + attention + head_norms + mlp + _adapter_token_bytes(run)


def _norm_bytes(run: Training, width: int, vectors: int = 1) -> int:
    """Return what norms of vectors with `width` numbers in total save per token besides their output."""
    if run.kernels == LIGER:
        return run.width * width + _FP32 * vectors
    return (_FP32 + run.width) * width


def _adapter_token_bytes(run: Training) -> int:
    """Return what the adapters save: the low-rank activations of each, and with dropout a copy of its input."""
    lora = run.lora
    if lora is None:
        return 0
    chosen = [sizes for name, sizes in run.shape.projections.items() if name in lora.target_modules]
    dropped = sum(into for into, _ in chosen) if lora.dropout else 0
    return run.width * (lora.rank * len(chosen) + dropped)


def activations(run: Training) -> int:
    """Return what is saved of a micro-batch of T tokens.

    Without checkpointing every layer saves its own. With it, each saves its input (b C per token), and only one layer
    at a time has the rest (arXiv 1604.06174). In addition: the last norm and the hidden states of the output layer,
    rotary angles, and if the attention needs them its mask (packed rows, T^2 of b bytes) or its probabilities
    (`eager`, one matrix per head).
    """
    shape, tokens, b = run.shape, run.tokens, run.width
    layer = layer_token_bytes(run) + _scores(run) // tokens
    kept = shape.layers * b * shape.hidden + layer if run.checkpointing else shape.layers * layer
    ends = _norm_bytes(run, shape.hidden) + 3 * b * shape.hidden + 2 * b * shape.head_dim
    return tokens * (kept + ends) + _mask(run)


def _scores(run: Training) -> int:
    """Return the probabilities of `eager` attention in one layer: fp32 and in the dtype, for each head."""
    if run.attention != "eager":
        return 0
    seen = run.tokens if run.zero.packing else run.longest
    return run.shape.heads // run.parallel.tensor * run.tokens * seen * (_FP32 + run.width)


def _mask(run: Training) -> int:
    masked = run.zero.packing and run.attention in ("sdpa", "eager")
    return run.tokens**2 * run.width if masked else 0


def logits(run: Training) -> int:
    """Return the arrays of one chunk of logits, whose size `policy.logprobs` bounds regardless of the batch.

    On a GPU one array in the policy's dtype, which its gradient overwrites; on a host several in fp32.
    """
    whole = max(run.tokens, 1) * run.shape.vocabulary
    if run.on_gpu:
        return run.width * min(FUSED_LOGITS_AT_ONCE, whole)
    return _LOGIT_COPIES * _FP32 * min(LOGITS_AT_ONCE, whole)


def head_gradient(run: Training) -> int:
    """Return the gradient of the output layer, accumulated in fp32 over the chunks, and its copy in the dtype."""
    return 0 if run.lora is not None else (_FP32 + run.width) * run.shape.embedding


def gathered(run: Training) -> int:
    """Return the parameters that stage 3 has complete at a time: at most `stage3_max_live_parameters`, or the head."""
    if run.zero.stage < 3 or (run.ranks == 1 and not run.zero.offload_parameters):
        return 0
    live = max(_LIVE_BUCKETS * run.zero.bucket_elements, run.shape.embedding)
    return run.width * min(run.shape.parameters, live)


def bucket(run: Training) -> int:
    """Return the buffer of gradients in transfer, and the largest single gradient, which is transferred separately."""
    if run.zero.stage == 0:
        return 0
    largest = run.shape.embedding if run.lora is None else 0
    return run.width * (min(run.zero.bucket_elements, run.held) + largest)


def host_parts(run: Training) -> list[Part]:
    """Return the memory of the ranks on their host: the model during loading, and what is offloaded.

    Each rank reads the complete model before ZeRO partitions it: N b P at the start. Offloaded: fp32 weights, moments
    and gradients, 16 Q over all ranks, and a copy of a partition in the dtype; parameters b P (arXiv 2101.06840).
    """
    zero, whole = run.zero, run.shape.parameters * run.width
    parts = [Part("model on its way to the ranks", run.ranks * whole, "start")]
    if zero.offload_optimizer and zero.stage:
        parts.append(Part("offloaded optimizer and gradients", (_FP32 + _MOMENTS + _FP32 + run.width) * run.trained))
    if zero.offload_parameters and zero.stage == 3:
        parts.append(Part("offloaded weights", _weights(run)))
    return parts


def software_parts(ranks: int) -> list[Part]:
    """Return CUDA, NCCL and the allocator's unused blocks on a training GPU: rules of thumb."""
    nccl = [Part("NCCL", GIB, assumed=True)] if ranks > 1 else []
    return [Part("CUDA context and libraries", GIB * 6 // 10, assumed=True), *nccl]
