"""`[algorithm]`: an algorithm, and what differs from it. A table with a `type` has the keys of that type.

Algorithms, estimators, clips and aggregations are entry points; see `warpsmith.trainer.algorithms`,
`warpsmith.trainer.advantage.estimators`, `warpsmith.trainer.loss.clips` and `warpsmith.trainer.loss.aggregations`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, ModelWrapValidatorHandler, model_validator

from warpsmith.records.choices import Choices
from warpsmith.records.registry import RegistryError
from warpsmith.rollout.settings.tables import models_in
from warpsmith.trainer.advantage.estimators import ESTIMATORS, Estimator, ValueEstimator
from warpsmith.trainer.advantage.estimators.turn import TurnReturn
from warpsmith.trainer.advantage.normalization import (
    Baseline,
    BatchScale,
    GroupScale,
    Normalisation,
    NoScale,
    Scale,
)
from warpsmith.trainer.algorithms import ALGORITHMS, Algorithm
from warpsmith.trainer.loss.aggregations import AGGREGATIONS, Aggregation
from warpsmith.trainer.loss.aggregations.sequence_mean import SequenceMean
from warpsmith.trainer.loss.clips import CLIPS, Clip
from warpsmith.trainer.loss.clips.ppo import PpoClip
from warpsmith.trainer.loss.objective_spec import (
    Correction,
    Divergence,
    MaskedCorrection,
    NoCorrection,
    ObjectiveSpec,
    Ratio,
    TruncatedCorrection,
)
from warpsmith.trainer.section import Section, as_table, one_of, registered, switched, type_of, unit

if TYPE_CHECKING:
    AnyEstimator = Estimator
    AnyClip = Clip
    AnyAggregation = Aggregation
    AnyScale = Scale
    AnyCorrection = Correction | NoCorrection
else:
    AnyEstimator = registered(ESTIMATORS)
    AnyClip = registered(CLIPS)
    AnyAggregation = registered(AGGREGATIONS)
    AnyScale = one_of(GroupScale, BatchScale, NoScale)
    AnyCorrection = one_of(NoCorrection, TruncatedCorrection, MaskedCorrection)


class KlSection(Section):
    """`[algorithm.kl]`: a KL divergence from the reference policy. Without this table there is none."""

    type: Divergence = Field(default="k3", description="Estimator of the divergence.")
    coefficient: float = Field(gt=0, description="Weight of the divergence.")
    add_to: Literal["loss", "reward"] = Field(
        default="loss", description="Add it to the `loss` of each token, or subtract a turn's sum from its `reward`."
    )
    reference: Path | None = Field(default=None, description="Reference policy; the initial policy when not given.")


class DynamicSamplingSection(Section):
    """`[algorithm.dynamic_sampling]`: groups whose scores are all the same are replaced by others.

    Without this table they are kept.
    """

    refill_rounds: int = Field(
        default=4, ge=0, description="Maximum rounds of sampling replacements; then the step takes what it has."
    )


class OverlongSection(Section):
    """`[algorithm.overlong]`: a penalty on long completions. Without this table there is none."""

    share: float = Field(
        default=0.2,
        gt=0,
        le=1,
        description="Last share of rollout.sampling.max_tokens; over it the penalty grows from 0.",
    )
    penalty: float = Field(
        default=1.0,
        ge=0,
        description="Subtracted from the score of a completion of max_tokens.",
        json_schema_extra=unit("score"),
    )


class AlgorithmSection(Section):
    """`[algorithm]`: an algorithm, and what differs from it."""

    type: Annotated[str, Choices(ALGORITHMS)] = Field(
        default="grpo",
        description="Algorithm: `baseline`, `ratio`, `mask_truncated`, `entropy_coefficient` and the tables have its "
        "values unless given.",
    )
    prompts_per_step: int = Field(default=4, ge=1, description="Problems of one training step.")
    prompts_per_rollout: int | None = Field(
        default=None,
        ge=1,
        description="Problems that are sampled at once; a step gathers rollouts until it has prompts_per_step. Each is "
        "recorded as it ends, so that a killed run loses one at most. All of a step when not given.",
    )
    samples_per_prompt: int = Field(default=4, ge=1, description="Trajectories of one problem: the group.")
    updates_per_step: int = Field(
        default=1, ge=1, description="Optimizer updates of one batch; the batch is cut along whole groups."
    )
    epochs_per_step: int = Field(default=1, ge=1, description="Passes over each batch; PPO's epochs.")
    old_logprobs: Literal["sampler", "recompute"] = Field(
        default="sampler",
        description="What the ratio is taken against: the sampler's log-probabilities, or the trainer's own.",
    )
    mask_truncated: bool = Field(
        default=False, description="Exclude completions that hit the length limit from the loss."
    )
    max_staleness: int = Field(
        default=0,
        ge=0,
        description="Maximum weight versions by which a token may be older than the weights that it trains; from 1 on, "
        "rollouts run while the ranks train.",
    )
    baseline: Baseline = Field(
        default="mean",
        description="Subtracted from a return: the `mean` of its group, or that of the others in it (`leave_one_out`).",
    )
    ratio: Ratio = Field(
        default="token", description="Importance ratio of each `token`, or one of the whole `sequence`."
    )
    entropy_coefficient: float = Field(default=0.0, ge=0, description="Weight of the entropy bonus.")
    estimator: AnyEstimator = Field(default=TurnReturn(), description="How the value of a turn is computed.")
    scale: AnyScale = Field(default=GroupScale(), description="What advantages are divided by.")
    clip: AnyClip = Field(default=PpoClip(), description="How the importance ratio is bounded.")
    aggregation: AnyAggregation = Field(default=SequenceMean(), description="Weight of each token in the loss.")
    correction: AnyCorrection = Field(
        default=NoCorrection(), description='Importance weights for the gap of sampler and trainer; needs "recompute".'
    )
    kl: Annotated[KlSection | None, BeforeValidator(switched)] = Field(
        default=None, description="KL divergence from a reference policy."
    )
    dynamic_sampling: Annotated[DynamicSamplingSection | None, BeforeValidator(switched)] = Field(
        default=None, description="Replacement of groups without spread."
    )
    overlong: Annotated[OverlongSection | None, BeforeValidator(switched)] = Field(
        default=None, description="Penalty on long completions."
    )

    @model_validator(mode="wrap")
    @classmethod
    def _with_defaults_of_the_algorithm(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        name = values.get("type", "grpo") if isinstance(values, dict) else None
        if not isinstance(name, str):
            return handler(values)
        try:
            algorithm = ALGORITHMS.get(name)
        except RegistryError as error:
            raise ValueError(f"type: {error.message.removesuffix('.')}. {error.remedy}") from None
        filled = handler(with_defaults(cls, values, algorithm))
        # The algorithm's choices were not given.
        filled.model_fields_set.intersection_update(values)
        return filled

    @model_validator(mode="after")
    def _compares(self) -> Self:
        if self.dynamic_sampling is not None and self.has_value_head:
            raise ValueError(
                f'dynamic_sampling leaves out groups without spread, and estimator = "{self.estimator.type}" learns '
                "from them as from any others; set dynamic_sampling = false"
            )
        if self.samples_per_prompt == 1 and not self.has_value_head:
            raise ValueError(
                "samples_per_prompt = 1 leaves no other sample to compare with, so every advantage is 0; use 2 or "
                'more, or type = "ppo", whose value head compares'
            )
        if ALGORITHMS.get(self.type).needs_value_head and not self.has_value_head:
            raise ValueError(
                f'type = "{self.type}" trains a value head, and estimator = "{self.estimator.type}" has none; remove '
                'estimator, set it to "gae", or use another type'
            )
        if self.prompts_per_rollout is not None and self.prompts_per_rollout > self.prompts_per_step:
            raise ValueError(
                f"prompts_per_rollout ({self.prompts_per_rollout}) is more than prompts_per_step "
                f"({self.prompts_per_step}), which a step trains; lower it, or cut a larger step by updates_per_step"
            )
        if self.updates_per_step > self.prompts_per_step:
            raise ValueError(
                f"updates_per_step ({self.updates_per_step}) is more than prompts_per_step "
                f"({self.prompts_per_step}); an update takes at least one whole group"
            )
        return self

    @model_validator(mode="after")
    def _corrects(self) -> Self:
        corrected = not isinstance(self.correction, NoCorrection)
        if corrected and self.old_logprobs == "sampler":
            raise ValueError(
                'correction needs old_logprobs = "recompute": against the sampler\'s own log-probabilities '
                "the ratio already holds the gap"
            )
        if not self.max_staleness or corrected:
            return self
        if self.old_logprobs == "recompute":
            raise ValueError(
                f'max_staleness = {self.max_staleness} with old_logprobs = "recompute" treats stale tokens as fresh; '
                'add correction = "truncated" or "masked", or use old_logprobs = "sampler"'
            )
        if not self.clip.bounds_ratio:
            raise ValueError(
                f'max_staleness = {self.max_staleness} with clip = "{self.clip.type}" bounds no ratio of a stale token;'
                ' set clip to "ppo" or "cispo", or old_logprobs = "recompute" with a correction'
            )
        return self

    @property
    def objective(self) -> ObjectiveSpec:
        """The objective these choices make."""
        in_loss = self.kl if self.kl is not None and self.kl.add_to == "loss" else None
        head = self.value_head
        return ObjectiveSpec(
            ratio=self.ratio,
            clip=self.clip,
            kl=in_loss.type if in_loss else "k3",
            kl_coefficient=in_loss.coefficient if in_loss else 0.0,
            entropy_coefficient=self.entropy_coefficient,
            correction=None if isinstance(self.correction, NoCorrection) else self.correction,
            value_coefficient=head.value_coefficient if head else 0.0,
            value_clip=head.value_clip if head else None,
        )

    @property
    def value_head(self) -> ValueEstimator | None:
        """Settings of the value head; None for an estimator without one."""
        return self.estimator if isinstance(self.estimator, ValueEstimator) else None

    @property
    def has_value_head(self) -> bool:
        """Whether the estimator trains a value head."""
        return self.value_head is not None

    @property
    def normalisation(self) -> Normalisation:
        """The normalisation these choices make."""
        return Normalisation(self.baseline, self.scale)


def with_defaults(section: type[AlgorithmSection], given: Mapping[str, Any], algorithm: Algorithm) -> dict[str, Any]:
    """Return an `[algorithm]` table with the algorithm's values for keys that the file leaves out."""
    filled = dict(given)
    for name, field in section.model_fields.items():
        models, own = models_in(field.annotation), algorithm.defaults.get(name)
        if name in given and given[name] is None:
            continue
        if models and (name in given or own is not None):
            default = getattr(field.default, "type", None)
            filled[name] = _completed(models, _table(given.get(name)), _table(own) or {}, default)
        elif own is not None:
            filled.setdefault(name, own)
    return filled


def _table(value: Any) -> Any:
    """Read the short forms of a table: `"name"` for its type, `true` for the defaults of all keys."""
    return {} if value is True else as_table(value)


def _completed(models: list[type[BaseModel]], given: Any, own: Mapping[str, Any], default: str | None) -> Any:
    """Return one table of the file, completed with the algorithm's own keys if both have the same type.

    Args:
        models: the tables that it may be.
        given: what the file has; None if nothing.
        own: what the algorithm has.
        default: type of the table if neither names one; None for a table without types.
    """
    if given is not None and not isinstance(given, dict):
        return given
    given = given or {}
    chosen = given.get("type", own.get("type", default))
    if own.get("type", chosen) != chosen:
        return given
    known = {key for model in models if type_of(model) == chosen for key in model.model_fields}
    completed = {key: value for key, value in own.items() if key in known} | given
    return completed if default is None else {"type": chosen} | completed


__all__ = ["AlgorithmSection", "DynamicSamplingSection", "KlSection", "OverlongSection", "with_defaults"]
