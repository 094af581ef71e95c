"""The file of a GRPO run."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.policy.config import PolicyConfig
from warpsmith.rollout.config import RolloutConfig
from warpsmith.trainer.config.algorithm import AlgorithmSection
from warpsmith.trainer.config.curriculum import AnyCurriculum, StagedCurriculum, UniformCurriculum
from warpsmith.trainer.config.health import HealthSection
from warpsmith.trainer.config.parallel import WHOLE, ParallelSection
from warpsmith.trainer.config.placement import PlacementSection, check_placement
from warpsmith.trainer.config.problems import (
    INTERPRETED_BYTES,
    AnyHeldOut,
    AnyProblems,
    GeneratedHeldOut,
    GeneratedProblems,
)
from warpsmith.trainer.config.rollout_keys import check_rollout_keys
from warpsmith.trainer.config.sections import (
    SECONDS_HELP,
    CheckpointSection,
    OptimizerSection,
    RunSection,
    TrackersSection,
    WandbSection,
    ZeroSection,
)
from warpsmith.trainer.config.tables import trainable
from warpsmith.trainer.section import Section, switched, unit


class GrpoRunSection(RunSection):
    """`[run]`: where a GRPO run writes, what it is called, how long it lasts."""

    steps: int = Field(default=100, ge=1, description="Training steps; each trains one batch of rollouts.")
    seconds: float | None = Field(default=None, gt=0, description=SECONDS_HELP, json_schema_extra=unit("s"))
    console: Literal["auto", "live", "steps", "turns"] = Field(
        default="auto",
        description="What is shown: one view updated in place (`live`), a block of lines for each step (`steps`), each "
        "turn and trajectory too (`turns`); `auto` is `live` on a terminal, else `steps`.",
    )
    live_json: bool = Field(
        default=False,
        description="Append a JSON line to `live.jsonl` in the run's directory for each turn and each trajectory as it "
        "ends. Texts beyond 16,384 characters are cut there; the records have them whole.",
    )
    repeatable: bool = Field(
        default=True, description="Seed every completion, so that the same weights sample the same tokens."
    )
    ray_address: str | None = Field(
        default=None,
        description="Address of the Ray cluster of samplers and evaluator actors; when not given, one is started here.",
    )


class SyncSection(Section):
    """`[sync]`: sending new weights to the samplers, and checking that they arrived."""

    deadline_s: float = Field(
        default=600.0, gt=0, description="Deadline of sending the weights, and again of the probe after it."
    )
    transport: Literal["auto", "host", "device"] = Field(
        default="auto",
        description="How whole weights reach the samplers: through `host` memory, or from GPU to GPU (`device`). "
        "`auto` takes the latter where ranks and samplers are on GPUs of one host. Adapters go through host memory.",
    )
    bucket_mib: int = Field(
        default=512,
        ge=1,
        description="Size of one of the two buckets on rank 0's GPU through which weights go to the samplers' GPUs.",
        json_schema_extra=unit("MiB"),
    )
    gather_elements: int = Field(
        default=250_000_000, ge=1024, description="Parameters that ZeRO stage 3 gathers at one time."
    )
    probe_tokens: int = Field(
        default=512,
        ge=8,
        description="Tokens whose log-probabilities are compared. The prefix cache is tested only if they fill more "
        "than one of its blocks (128 tokens on a CPU).",
        json_schema_extra=unit("tokens"),
    )
    lora: Literal["auto", "adapter", "merged"] = Field(
        default="auto",
        description="With [policy.lora]: send only the `adapter`, or whole weights with it `merged`; `auto` merges "
        "where policy.lora.bits is set.",
    )
    tolerance: float | None = Field(
        default=None,
        gt=0,
        description="Largest permitted gap of log-probabilities: of any token where trainer and sampler compute in "
        "float32, on average elsewhere; by dtype when not given.",
        json_schema_extra=unit("nats"),
    )


class HeldOutSection(Section):
    """`[held_out]`: evaluation on problems that are not trained on, before, during and after the run.

    Without this table there is none.
    """

    source: AnyHeldOut = GeneratedHeldOut()
    problems: int = Field(ge=1, description="Number of held-out problems; of files, the seed chooses them.")
    samples: int = Field(default=1, ge=1, description="Trajectories of each.")
    seed: int = Field(default=20_000, ge=0, description="Seed of the problems, which are the same each time.")
    before: bool = Field(default=True, description="Evaluate before the first step.")
    every: int = Field(
        default=0,
        ge=0,
        description="Also evaluate each time this many steps are done; 0: never. checkpoint.keep_best then uses it.",
        json_schema_extra=unit("steps"),
    )
    after: bool = Field(default=True, description="Evaluate after the last step.")


class TrainerConfig(Section):
    """A GRPO run."""

    run: GrpoRunSection
    placement: PlacementSection = PlacementSection()
    policy: PolicyConfig
    problems: AnyProblems = GeneratedProblems()
    curriculum: AnyCurriculum = UniformCurriculum()
    rollout: RolloutConfig = RolloutConfig()
    evaluator: EvaluatorConfig = EvaluatorConfig()
    algorithm: AlgorithmSection = AlgorithmSection()
    optimizer: OptimizerSection = OptimizerSection()
    zero: ZeroSection = ZeroSection()
    parallel: ParallelSection = WHOLE
    sync: SyncSection = SyncSection()
    held_out: Annotated[HeldOutSection | None, BeforeValidator(switched)] = None
    health: HealthSection = HealthSection()
    checkpoint: CheckpointSection = CheckpointSection()
    wandb: WandbSection = WandbSection()
    trackers: TrackersSection = TrackersSection()

    _trainable = model_validator(mode="after")(trainable)

    @property
    def sends_adapter(self) -> bool:
        """Whether samplers get only the adapter instead of whole weights."""
        return self.policy.lora is not None and not self.policy.lora.bits and self.sync.lora != "merged"

    @property
    def device_obstacle(self) -> str | None:
        """What prevents weights from going from GPU to GPU, as a clause; None if nothing does."""
        sampler, lora = self.rollout.sampler, self.policy.lora
        reasons = {
            "adapters alone are sent, which are small": self.sends_adapter,
            "the policy's weights are in 4 or 8 bits": lora is not None and bool(lora.bits),
            'rollout.sampler.device is "cpu"': sampler.device != "cuda",
            f"the sampler `{sampler.type}` is of another package": sampler.type != "vllm",
            f'rollout.sampler.transport is "{sampler.transport}"': sampler.transport is not None,
        }
        return next((reason for reason, holds in reasons.items() if holds), None)

    @model_validator(mode="after")
    def _weights_can_go_from_gpu_to_gpu(self) -> Self:
        if self.sync.transport == "device" and (obstacle := self.device_obstacle):
            raise ValueError(f'sync.transport = "device" cannot work: {obstacle}; remove it, or set "auto" or "host"')
        return self

    @model_validator(mode="after")
    def _curriculum_can_advance(self) -> Self:
        if isinstance(self.curriculum, StagedCurriculum) and (obstacle := self.curriculum.obstacle(self.run.steps)):
            raise ValueError(obstacle)
        return self

    @model_validator(mode="after")
    def _samplers_can_take_adapters(self) -> Self:
        lora = self.policy.lora
        if self.rollout.sampler.lora_rank:
            raise ValueError("rollout.sampler.lora_rank: a run sets it from policy.lora.rank; remove it")
        if self.rollout.sampler.lora_agents:
            raise ValueError("rollout.sampler.lora_agents: a run sets it from policy.adapters; remove it")
        if self.sync.lora != "auto" and lora is None:
            raise ValueError("sync.lora is read only with [policy.lora]; add that table or remove the key")
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
    def _adapters_are_those_of_the_agents(self) -> Self:
        named, agents = set(self.policy.adapters), set(self.rollout.agents)
        if not named:
            return self
        if named != agents:
            expected = " and ".join(self.rollout.agents) or "none, because its environment has no agents of its own"
            raise ValueError(
                f"policy.adapters names {' and '.join(self.policy.adapters)}; the agents of rollout.environment "
                f'"{self.rollout.environment.type}" are {expected}. Name each of them, or set rollout.environment'
            )
        if self.zero.stage == 3:
            raise ValueError("policy.adapters: zero.stage 3 cannot leave an adapter out of an update; set 0, 1 or 2")
        if self.algorithm.has_value_head:
            raise ValueError("policy.adapters: a value head is shared by all agents; use an estimator without one")
        if not self.sends_adapter:
            raise ValueError(
                "policy.adapters: samplers take the adapters alone; remove policy.lora.bits and sync.lora (SFT takes "
                "4 bits)"
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
        """Refuse to sample from a subset of the tokens: the trainer's probabilities are over all of them."""
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
    def _reads_every_key_of_rollouts(self) -> Self:
        check_rollout_keys(self.rollout, self.evaluator)
        return self

    @model_validator(mode="after")
    def _judges_large_problems_on_a_gpu(self) -> Self:
        """Refuse to interpret problems of GPU size. Which devices servers have is not known here."""
        trained, held_out = self.problems, self.held_out.source if self.held_out is not None else None
        if isinstance(trained, GeneratedProblems) and trained.touched and trained.touched[1] <= INTERPRETED_BYTES:
            return self
        sizes = {
            "problems.size": trained.size if isinstance(trained, GeneratedProblems) else None,
            "held_out.source.size": held_out.size if isinstance(held_out, GeneratedHeldOut) else None,
        }
        large = next((key for key, size in sizes.items() if size == "gpu"), None)
        if large is not None and self.evaluator.device == "cpu" and self.rollout.evaluation.type != "server":
            raise ValueError(
                f'{large} = "gpu": these problems are too large for the interpreter; '
                f'set evaluator.device = "cuda", {large} = "cpu", or problems.touched = [16384, 65536]'
            )
        return self

    @model_validator(mode="after")
    def _placed(self) -> Self:
        staleness = self.algorithm.max_staleness
        check_placement(self.placement, self.rollout, self.evaluator, self.run.ray_address, staleness)
        return self
