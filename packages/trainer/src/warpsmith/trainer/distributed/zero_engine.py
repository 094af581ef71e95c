"""A causal language model under DeepSpeed ZeRO: forward, accumulated backward, step, weights, state."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from warpsmith.policy import lowrank
from warpsmith.policy.config import LoraSettings
from warpsmith.policy.logprobs import TokenFigures
from warpsmith.trainer.config.sections import OptimizerSection, ZeroSection
from warpsmith.trainer.distributed.deepspeed_config import deepspeed_config
from warpsmith.trainer.distributed.gathered_weights import Part, factor_parts, gathered, merged_parts, plain_parts
from warpsmith.trainer.distributed.optimizer import make_optimizer, rest_others
from warpsmith.trainer.distributed.packing import Scorer
from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.distributed.tensor_parallel import tensor_parallel, total_norm
from warpsmith.trainer.distributed.value_head import ValueHead
from warpsmith.trainer.errors import CheckpointError, DivergenceError
from warpsmith.trainer.weights.checkpoint import DAMAGED

if TYPE_CHECKING:
    from warpsmith.trainer.distributed.rows import PaddedRows


class ZeroEngine:
    """A model in training. Every method is collective: all ranks call it, in the same order.

    Args:
        model: a transformers causal language model, whole, in host memory.
        zero: how the state is partitioned.
        optimizer: AdamW's settings.
        ranks: the processes.
        dtype: `float32` or `bfloat16`.
        value_head: the model's value head, see `warpsmith.trainer.distributed.value_head`; None without one.
        value_lr: peak learning rate of the value head.
        lora: the settings of the model's adapters; None if every weight is trained.
        agents: names of the adapters, one for each agent; empty if the model has one or none.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        zero: ZeroSection,
        optimizer: OptimizerSection,
        ranks: Ranks,
        dtype: str,
        value_head: ValueHead | None = None,
        value_lr: float | None = None,
        lora: LoraSettings | None = None,
        agents: Sequence[str] = (),
    ) -> None:
        import deepspeed

        self.ranks = ranks
        self.lora = lora
        self.agents = tuple(agents)
        self.zero = zero
        chosen, self._lr_factors = make_optimizer(model, optimizer, value_lr)
        # A tied weight is stored once; some of ZeRO's code would take its second name for a second gradient.
        self._engine: Any
        self._engine, *_ = deepspeed.initialize(
            model=model,
            optimizer=chosen,
            config=deepspeed_config(zero, optimizer, dtype, ranks.world) | tensor_parallel(model, ranks),
            dist_init_required=False,
        )
        self._scorer = Scorer(self._engine, packing=zero.packing, value_head=value_head, split=ranks.rows)

    @property
    def module(self) -> nn.Module:
        """The model; under stage 3 its parameters are empty outside of a gather."""
        return self._engine.module  # type: ignore[no-any-return]

    def train(self, mode: bool = True) -> None:
        """Switch between training and evaluation mode."""
        self._engine.train(mode)

    def logprobs(self, rows: "PaddedRows", temperature: float) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and entropies of the rows' completion tokens, (B, T) fp32 each.

        Raises:
            ConfigError: `zero.packing` is on and the model would mix the rows.
        """
        return self._scorer.logprobs(rows, temperature)

    def figures(self, rows: "PaddedRows", temperature: float, *, greedy: bool = False) -> TokenFigures:
        """Return log-probabilities, entropies, values with a value head, and with `greedy` the likeliest tokens.

        Each (B, T) in fp32; errors as above.
        """
        return self._scorer.figures(rows, temperature, greedy=greedy)

    def accumulate(self, loss: Tensor, *, last: bool) -> None:
        """Add the gradient of this rank's share of the loss; the ranks' shares add up.

        Args:
            loss: a scalar; a rank with nothing to add passes 0 times something that depends on the model.
            last: whether `step` follows.

        Raises:
            DivergenceError: the loss is not finite.
        """
        if not torch.isfinite(loss.detach()):
            raise DivergenceError(
                f"The loss is {loss.item()}.", "Lower optimizer.lr, or lower optimizer.max_grad_norm."
            )
        self._engine.set_gradient_accumulation_boundary(last)
        # DeepSpeed averages over the ranks, but the loss is already normalised over all of them.
        self._engine.backward(loss * self.ranks.replicas, scale_wrt_gas=False)

    def step(self, lr: float, agent: str | None = None) -> float:
        """Apply the accumulated gradient with learning rate `lr`; return its global norm before clipping.

        Args:
            lr: the learning rate.
            agent: the agent whose adapter is trained, and whose turns alone were accumulated; None trains all.

        Raises:
            DivergenceError: the norm is not finite.
        """
        for group, factor in zip(self._engine.optimizer.param_groups, self._lr_factors, strict=True):
            group["lr"] = lr * factor
        rest_others(self._engine.optimizer.param_groups, agent)
        before = self._plain_norm()
        self._engine.step()
        norm = self._engine.get_global_grad_norm() if before is None else before
        value = float(norm) if norm is not None else float("nan")
        if not torch.isfinite(torch.tensor(value)):
            raise DivergenceError(
                f"The norm of the gradient is {value}; the weights in memory are damaged.",
                "Resume from the last checkpoint with a lower optimizer.lr.",
            )
        return value

    def _plain_norm(self) -> float | None:
        """Return the norm if DeepSpeed computes none: stage 0 in fp32, where gradients are complete and reduced."""
        if self._engine.zero_optimization() or self._engine.bfloat16_enabled():
            return None
        return float(total_norm(self.module.parameters(), self.ranks.layers))

    @contextmanager
    def without_adapters(self) -> Iterator[None]:
        """Compute without the adapters, in evaluation mode, for passes without a gradient."""
        training = self.module.training
        self.train(False)
        try:
            with lowrank.disabled(self.module):
                yield
        finally:
            self.train(training)

    def act_as(self, agent: str | None) -> None:
        """Compute with an agent's adapter from now on; with one adapter or none this changes nothing."""
        if agent is not None and self.agents:
            lowrank.select(self.module, agent)

    def weights(self, bucket_elements: int, agent: str | None = None) -> Iterator[tuple[str, Tensor]]:
        """Yield every weight by its Hugging Face name as a host copy; collective, with empty tensors off rank 0.

        The adapter, of several that of `agent`, is added to the copies. A value head's weights are excluded: samplers
        and Hugging Face directories have none.
        """
        return gathered(self.weight_parts(agent), self.ranks, bucket_elements)

    def weight_parts(self, agent: str | None = None) -> list[Part]:
        """Return the parts that `weights` gathers; gather them before the next forward pass."""
        self._drop_fetched()
        return plain_parts(self.module) if self.lora is None else merged_parts(self.module, agent or lowrank.ADAPTER)

    def adapter_weights(self, bucket_elements: int, agent: str | None = None) -> Iterator[tuple[str, Tensor]]:
        """Yield an adapter's factors by their names in peft's files; as `weights` otherwise."""
        self._drop_fetched()
        return gathered(factor_parts(self.module, agent or lowrank.ADAPTER), self.ranks, bucket_elements)

    def _drop_fetched(self) -> None:
        """Wait for the parameters that stage 3 fetched ahead, and release them.

        A forward pass without a backward one, like the probe's, leaves those in flight that the backward pass would
        need first. DeepSpeed waits for them at the next forward pass alone, and cannot gather them until then.
        """
        if self.zero.stage == 3:
            self._engine.optimizer.empty_partition_cache()

    def save(self, directory: Path) -> None:
        """Write the trained weights, the optimizer and DeepSpeed's counters into `directory`, which must exist.

        Frozen weights under adapters are excluded: they are in the policy's directory.
        """
        frozen = self.lora is not None
        with _trained_state(self.module) if frozen else nullcontext():
            self._engine.save_checkpoint(
                str(directory), tag="zero", save_latest=False, exclude_frozen_parameters=frozen
            )

    def load(self, directory: Path) -> None:
        """Read what `save` wrote; call it before the first forward pass.

        Raises:
            CheckpointError: the files are damaged or have other shapes.
        """
        try:
            found, _ = self._engine.load_checkpoint(
                str(directory), tag="zero", custom_load_fn=None if self.lora is None else _load_trained
            )
        except (*DAMAGED, AssertionError) as error:
            raise CheckpointError(
                f"The checkpoint in {directory} cannot be loaded: {error}.",
                "Resume from an older checkpoint: remove this one.",
            ) from error
        if found is None:
            raise CheckpointError(f"{directory} has no DeepSpeed state.", "Remove it and resume from an older one.")


@contextmanager
def _trained_state(module: nn.Module) -> Iterator[None]:
    """Exclude frozen weights from the module's state, under every name: DeepSpeed forgets the name of a tied one.

    The quantization state of a 4-bit weight belongs to it: `x.weight.absmax` to `x.weight`.
    """
    frozen = {name for name, value in module.named_parameters(remove_duplicate=False) if not value.requires_grad}

    def drop(_module: nn.Module, state: dict[str, Tensor], prefix: str, _metadata: dict[str, Any]) -> None:
        if not prefix:
            for name in [name for name in state if not frozen.isdisjoint(_name_and_owners(name))]:
                del state[name]

    handle = module.register_state_dict_post_hook(drop)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        handle.remove()


def _name_and_owners(name: str) -> Iterator[str]:
    """Yield `a.b.c`, `a.b` and `a`."""
    while name:
        yield name
        name = name.rpartition(".")[0]


def _load_trained(src: dict[str, Tensor], dst: nn.Module) -> None:
    """Load a checkpoint without frozen weights.

    Raises:
        KeyError: it lacks something that is trained, or has something that is not.
    """
    trained = {name for name, parameter in dst.named_parameters() if parameter.requires_grad}
    missing, unknown = dst.load_state_dict(src, strict=False)
    wrong = sorted(trained.intersection(missing).union(unknown))
    if wrong:
        raise KeyError(f"{wrong[0]} is only in one of checkpoint and model")
