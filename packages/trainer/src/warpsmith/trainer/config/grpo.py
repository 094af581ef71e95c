"""The file of a GRPO run."""

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ModelWrapValidatorHandler, ValidationInfo, field_validator, model_validator

from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.policy.config import PolicyConfig
from warpsmith.rollout.config import RolloutConfig
from warpsmith.trainer.advantage.normalization import Baseline, Deviation, Normalisation, Scale
from warpsmith.trainer.algorithms import PRESETS
from warpsmith.trainer.algorithms.preset import (
    Aggregation,
    Clip,
    Correction,
    Divergence,
    Estimator,
    Level,
    Ratio,
)
from warpsmith.trainer.config.health import HealthSection
from warpsmith.trainer.config.placement import PlacementSection, check_placement
from warpsmith.trainer.config.sections import (
    CheckpointSection,
    OptimizerSection,
    RunSection,
    Section,
    WandbSection,
    ZeroSection,
)
from warpsmith.trainer.config.tables import trainable
from warpsmith.trainer.config.unread import refuse_unread, refuse_unread_keys
from warpsmith.trainer.loss.objective_spec import ObjectiveSpec


class GrpoRunSection(RunSection):
    """`[run]` of a GRPO file."""

    steps: int = Field(default=100, ge=1, description="Training steps: one batch of rollouts each.")
    seconds: float | None = Field(default=None, gt=0, description="Stop after this much wall time, with a checkpoint.")
    console: Literal["turns", "steps"] = Field(
        default="turns", description="Print a line each turn and a summary each trajectory, or a line each step only."
    )
    repeatable: bool = Field(
        default=True, description="Seed every completion, so that the same weights sample the same tokens."
    )
    ray_address: str | None = Field(
        default=None, description="Ray cluster to place the engines on; a local one is started when not given."
    )


class AlgorithmSection(Section):
    """`[algorithm]`: a preset, and what differs from it."""

    preset: Literal["grpo", "dr_grpo", "dapo", "gspo", "cispo", "rloo", "ppo"] = Field(
        default="grpo",
        description="Where `estimator`, `baseline` to `aggregation` and some others come from unless given.",
    )
    prompts_per_step: int = Field(default=4, ge=1, description="Problems of one training step.")
    samples_per_prompt: int = Field(default=4, ge=1, description="Trajectories of one problem: the group.")
    updates_per_step: int = Field(
        default=1, ge=1, description="Optimizer updates of one batch; the batch is cut along whole groups."
    )
    epochs_per_step: int = Field(default=1, ge=1, description="How often a batch is passed through; PPO's epochs.")
    dynamic_sampling: bool = Field(
        default=False, description="Leave out groups whose scores are all the same, and sample others in their place."
    )
    refill_rounds: int = Field(
        default=4, ge=0, description="Most rounds of sampling in their place; then the step takes what it has."
    )
    overlong_share: float = Field(
        default=0.0, ge=0, le=1, description="Last share of max_tokens over which a penalty grows; 0 has none."
    )
    overlong_penalty: float = Field(
        default=1.0, ge=0, description="Taken off the score of an answer of max_tokens, in units of the score."
    )
    estimator: Estimator = Field(
        default="turn",
        description="What a turn is judged by: its return R_t, the trajectory's R_0, the last score, or `gae`: a value "
        "head's advantage.",
    )
    gae_lambda: float = Field(default=0.95, ge=0, le=1, description="Lambda of `gae`; its gamma is rollout.gamma.")
    value_coefficient: float = Field(default=0.1, ge=0, description="Weight of the value head's loss under `gae`.")
    value_clip: float | None = Field(
        default=None, gt=0, description="Most that a value may move in one batch; unset clips nothing."
    )
    value_lr: float = Field(
        default=1e-3, ge=0, description="Learning rate of the value head, with the course of optimizer.lr."
    )
    value_trains: Literal["policy", "head"] = Field(
        default="policy", description="Whether the value's loss reaches the `policy`, or its `head` alone."
    )
    baseline: Baseline = Field(default="mean", description="`mean` of the group or `leave_one_out`.")
    scale: Scale = Field(
        default="group", description="Divide advantages by the `group`'s deviation, the `batch`'s, `none`."
    )
    deviation: Deviation = Field(default="population", description="`population` (by n) or `sample` (by n - 1).")
    ratio: Ratio = Field(default="token", description="Importance ratio of each `token` or of the `sequence`.")
    clip: Clip = Field(default="ppo", description="`ppo`, `cispo` or `none`.")
    clip_low: float = Field(default=0.2, ge=0, description="The ratio's lower bound is 1 - clip_low.")
    clip_high: float = Field(default=0.2, ge=0, description="The ratio's upper bound is 1 + clip_high.")
    clip_dual: float | None = Field(
        default=None, gt=1, description="Most weight of a token of negative advantage under `ppo`; unset has no bound."
    )
    aggregation: Aggregation = Field(
        default="sequence_mean", description="Loss per token: `token_mean`, `sequence_mean` or `constant`."
    )
    constant_length: int = Field(default=1024, ge=1, description="Length that `constant` divides by.")
    kl: Divergence = Field(default="k3", description="Estimator of the KL to the reference policy.")
    kl_coefficient: float = Field(default=0.0, ge=0, description="Weight of that KL; 0 loads no reference policy.")
    kl_in: Literal["loss", "reward"] = Field(
        default="loss", description="Add it to the `loss` of each token, or take a turn's sum off its `reward`."
    )
    reference: Path | None = Field(default=None, description="Reference policy; the initial policy when not given.")
    entropy_coefficient: float = Field(default=0.0, ge=0, description="Weight of the entropy bonus.")
    old_logprobs: Literal["sampler", "recompute"] = Field(
        default="sampler",
        description="What the ratio is taken against: the sampler's log-probabilities, or the trainer's own.",
    )
    correction: Correction = Field(
        default="none", description="Sampler-trainer gap: `truncated` or `masked` importance weights; needs recompute."
    )
    correction_level: Level = Field(
        default="token",
        description="Weigh by the ratio of each `token`, of the whole turn (`sequence`) or its `geometric` mean.",
    )
    correction_low: float = Field(default=0.5, ge=0, description="Weights below this are dropped by `masked`.")
    correction_high: float = Field(default=2.0, gt=0, description="Cap of `truncated`, upper bound of `masked`.")
    correction_veto: float = Field(
        default=0.0, ge=0, lt=1, description="Drop a turn with a token whose ratio is below this; 0 drops none."
    )
    mask_truncated: bool = Field(
        default=False, description="Leave completions that hit the length limit out of the loss."
    )
    max_staleness: int = Field(
        default=0,
        ge=0,
        description="Versions that a token may be older than the weights it trains; from 1 on rollouts go on while "
        "the ranks train.",
    )

    @model_validator(mode="wrap")
    @classmethod
    def _fill_from_preset(cls, values: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        """Put the preset's choices under what the file says, and refuse what it says for nothing."""
        preset = values.get("preset", "grpo") if isinstance(values, dict) else None
        if not isinstance(preset, str) or preset not in PRESETS:
            return handler(values)
        filled = handler({**vars(PRESETS[preset]), **values})
        # What the preset brought along was not given.
        filled.model_fields_set.intersection_update(values)
        return refuse_unread_keys(filled, "algorithm", info)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.correction != "none" and self.old_logprobs == "sampler":
            raise ValueError(
                'correction needs old_logprobs = "recompute": against the sampler\'s own log-probabilities '
                "the ratio already holds the gap"
            )
        if self.clip != "none" and not self.clip_low and not self.clip_high:
            raise ValueError(
                f'clip = "{self.clip}" with clip_low and clip_high of 0 (preset = "rloo" has them so, since it clips '
                "nothing) takes the gradient of every ratio that has moved; give both, 0.2 is usual"
            )
        if self.correction == "masked" and self.correction_low > self.correction_high:
            raise ValueError(
                f"correction_low ({self.correction_low}) is above correction_high ({self.correction_high})"
            )
        if self.dynamic_sampling and self.has_value_head:
            raise ValueError(
                'dynamic_sampling leaves out groups without spread, and estimator = "gae" learns from them as from '
                "any others; set dynamic_sampling = false"
            )
        if self.samples_per_prompt == 1 and not self.has_value_head:
            raise ValueError(
                "samples_per_prompt = 1 leaves nobody in a group to be compared with, so that every advantage is 0; "
                'take 2 or more, or preset = "ppo", whose value head compares'
            )
        if self.preset == "ppo" and not self.has_value_head:
            raise ValueError(
                f'preset = "ppo" learns by a value head, and estimator = "{self.estimator}" has none; leave estimator '
                'out or set it to "gae", or take another preset'
            )
        if self.updates_per_step > self.prompts_per_step:
            raise ValueError(
                f"updates_per_step ({self.updates_per_step}) is more than prompts_per_step "
                f"({self.prompts_per_step}); an update takes at least one whole group"
            )
        return self

    @model_validator(mode="after")
    def _corrects_stale_tokens(self) -> Self:
        if not self.max_staleness or self.correction != "none":
            return self
        if self.old_logprobs == "recompute":
            raise ValueError(
                f'max_staleness = {self.max_staleness} with old_logprobs = "recompute" takes stale tokens for fresh '
                'ones; add correction = "truncated" or "masked", or use old_logprobs = "sampler"'
            )
        if self.clip == "none":
            raise ValueError(
                f'max_staleness = {self.max_staleness} with clip = "none" bounds no ratio of a stale token; set clip '
                'to "ppo" or "cispo", or old_logprobs = "recompute" with a correction'
            )
        return self

    @property
    def objective(self) -> ObjectiveSpec:
        """The objective these choices make."""
        chosen = {name: value for name, value in vars(self).items() if name in ObjectiveSpec.__dataclass_fields__}
        if self.kl_in == "reward":
            chosen["kl_coefficient"] = 0.0
        if not self.has_value_head:
            chosen["value_coefficient"] = 0.0
        return ObjectiveSpec(**chosen)

    @property
    def has_value_head(self) -> bool:
        """Whether the estimator asks a value head."""
        return self.estimator == "gae"

    @property
    def normalisation(self) -> Normalisation:
        """The normalisation these choices make."""
        return Normalisation(self.baseline, self.scale, self.deviation)


class SyncSection(Section):
    """`[sync]`: carrying new weights to the engines, and proving that they arrived."""

    deadline_s: float = Field(default=600.0, gt=0, description="Longest that a sync and its probe may take.")
    gather_elements: int = Field(
        default=250_000_000, ge=1024, description="Parameters gathered at once under ZeRO stage 3."
    )
    probe_tokens: int = Field(
        default=160,
        ge=8,
        description="Tokens whose log-probabilities are compared; more than a prefix cache's block (128 on a CPU).",
    )
    lora: Literal["auto", "adapter", "merged"] = Field(
        default="auto",
        description="With [policy.lora]: send the `adapter` alone, or whole weights with it `merged`; `auto` merges "
        "where policy.lora.bits is set.",
    )
    tolerance: float | None = Field(
        default=None,
        gt=0,
        description="Largest permitted gap of a token's log-probability; by dtype when not given.",
    )


class HeldOutSection(Section):
    """`[held_out]`: evaluation on problems that are not trained on, before and after the run."""

    problems: int = Field(default=0, ge=0, description="Held-out problems; 0 evaluates nothing.")
    samples: int = Field(default=1, ge=1, description="Trajectories of each.")
    seed: int = Field(default=20_000, ge=0, description="Seed of the problems; the same before and after.")
    before: bool = Field(default=True, description="Evaluate before the first step.")
    after: bool = Field(default=True, description="Evaluate after the last step.")


class ProblemsSection(Section):
    """`[problems]`: what the policy is trained on."""

    source: str = Field(
        default="generated",
        description="`generated`, a directory in KernelBench's layout, or its rows (.jsonl, .json, .parquet).",
    )
    count: int = Field(default=512, ge=1, description="Generated problems.")
    levels: tuple[int, ...] = Field(default=(1, 2, 3), description="Levels of the generated or read problems.")
    seed: int = Field(default=0, ge=0, description="Seed of the generated problems.")

    @field_validator("source")
    @classmethod
    def _not_empty(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("must not be empty")
        return value


class TrainerConfig(Section):
    """A GRPO run."""

    run: GrpoRunSection
    placement: PlacementSection = PlacementSection()
    policy: PolicyConfig
    problems: ProblemsSection = ProblemsSection()
    rollout: RolloutConfig = RolloutConfig()
    evaluator: EvaluatorConfig = EvaluatorConfig()
    algorithm: AlgorithmSection = AlgorithmSection()
    optimizer: OptimizerSection = OptimizerSection()
    zero: ZeroSection = ZeroSection()
    sync: SyncSection = SyncSection()
    held_out: HeldOutSection = HeldOutSection()
    health: HealthSection = HealthSection()
    checkpoint: CheckpointSection = CheckpointSection()
    wandb: WandbSection = WandbSection()

    _trainable = model_validator(mode="after")(trainable)
    _unread = model_validator(mode="after")(refuse_unread)

    @property
    def sends_adapter(self) -> bool:
        """Whether samplers get the adapter alone, and not whole weights."""
        return self.policy.lora is not None and not self.policy.lora.bits and self.sync.lora != "merged"

    @model_validator(mode="after")
    def _samplers_can_take_adapters(self) -> Self:
        lora = self.policy.lora
        if self.rollout.engine.lora_rank:
            raise ValueError("rollout.engine.lora_rank: a run sets it from policy.lora.rank; remove it")
        if self.sync.lora != "auto" and lora is None:
            raise ValueError("sync.lora is read with [policy.lora] alone; add that table or remove the key")
        if self.sync.lora == "adapter" and lora is not None and lora.bits:
            raise ValueError(
                "sync.lora: the sampler's weights are not in 4 bits, so on them the adapter is another policy; "
                'set "merged"'
            )
        if self.sends_adapter and lora is not None and lora.rank > 512:
            raise ValueError(
                f'policy.lora.rank ({lora.rank}): vLLM takes up to 512; lower it, or set sync.lora = "merged"'
            )
        return self

    @model_validator(mode="after")
    def _trains_without_dropout(self) -> Self:
        if self.policy.lora is not None and self.policy.lora.dropout:
            raise ValueError(
                f"policy.lora.dropout ({self.policy.lora.dropout}): the sampler has none, so dropout would put noise "
                "in the ratio of trainer to sampler; set it to 0 (SFT takes it)"
            )
        return self

    @model_validator(mode="after")
    def _samples_every_token(self) -> Self:
        """Refuse to sample from a part of the tokens: the trainer's probabilities are over all of them."""
        sampling = self.rollout.sampling
        cuts = {
            "top_p": sampling.top_p is not None and sampling.top_p < 1,
            "top_k": sampling.top_k is not None,
            "min_p": bool(sampling.min_p),
        }
        if any(cuts.values()):
            named = ", ".join(f"rollout.sampling.{key}" for key, cut in cuts.items() if cut)
            raise ValueError(
                f"{named}: the sampler's log-probabilities would be over the kept tokens alone and the "
                "trainer's are over all, so the ratio would not begin at 1 and the clip would take gradients away; "
                "remove it"
            )
        return self

    @model_validator(mode="after")
    def _placed(self) -> Self:
        check_placement(self.placement, self.rollout, self.evaluator, self.run.ray_address)
        return self

    @model_validator(mode="after")
    def _servers_have_their_own_settings(self) -> Self:
        unheard = sorted(self.evaluator.model_fields_set - {"minimum_isolation"})
        if self.rollout.evaluation.where == "server" and unheard:
            raise ValueError(
                f"evaluator.{unheard[0]}: candidates are judged on servers, which have settings of their own; of "
                "[evaluator] only minimum_isolation counts then, so remove the others"
            )
        return self
