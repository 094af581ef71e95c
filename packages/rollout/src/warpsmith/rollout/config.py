"""Configuration of rollouts. Importable without torch, vllm or ray."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Protocol, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from warpsmith.evaluator.baselines import compiled_ones
from warpsmith.evaluator.client.address import is_address
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.instructions import unasked
from warpsmith.evaluator.recordings.library_policy import POLICY_HELP, OperatorPolicy
from warpsmith.rollout.environments.config import (
    AnyEnvironment,
    GenerateConfig,
    MultiTurnConfig,
    OptimizeConfig,
    OtherEnvironmentConfig,
    TwoRoleConfig,
)
from warpsmith.rollout.feedback_config import FeedbackConfig
from warpsmith.rollout.history import HistoryConfig
from warpsmith.rollout.prompts import PromptStyle
from warpsmith.rollout.registries import SamplerName, TransportName
from warpsmith.rollout.rewards.config import AnyReward, PresetRewardConfig
from warpsmith.rollout.turns import GENERATOR, OPTIMIZER, Agent

if TYPE_CHECKING:
    from warpsmith.rollout.datasets import ProblemRow


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


_OWN_TRANSPORTS = (None, "in_process", "shared_file")


class SamplingConfig(_Section):
    """How completions are sampled. A training run refuses top_p, top_k and min_p, which would bias its ratio."""

    temperature: float = Field(default=1.0, ge=0, le=10, description="Divides the logits; 0 takes the likeliest token.")
    top_p: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="Sample from the likeliest tokens, up to this total probability; from all when not given.",
    )
    top_k: int | None = Field(
        default=None, ge=1, description="Sample from this many of the likeliest tokens; from all when not given."
    )
    min_p: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Sample from tokens this likely, relative to the likeliest one; from all when not given.",
    )
    max_tokens: int = Field(default=1024, ge=1, description="Maximum tokens per completion.")


class SamplerConfig(_Section):
    """Each sampler: vLLM in its own process on a CPU, asynchronous vLLM on a GPU, or one of another package."""

    type: SamplerName = Field(default="vllm", description="`vllm`, or a sampler of an installed package.")
    device: Literal["cpu", "cuda"] = Field(default="cpu", description="Where the model runs.")
    dtype: Literal["float32", "bfloat16", "float16"] = Field(default="bfloat16", description="Type of the weights.")
    max_model_len: int = Field(
        default=2048,
        ge=16,
        description="Maximum tokens of a prompt with its completion.",
        json_schema_extra={"unit": "tokens"},
    )
    max_sequences: int = Field(default=32, ge=1, description="Maximum sequences sampled at once.")
    max_batched_tokens: int = Field(default=32768, ge=64, description="Maximum tokens that vLLM computes in one step.")
    enforce_eager: bool = Field(default=False, description="On a GPU: do not capture CUDA graphs. A CPU has none.")
    compile_model: bool = Field(
        default=True,
        description="On a GPU: compile the model before CUDA graphs are captured. Without it a sampler starts sooner, "
        "and only steps without new prompts run as graphs. No effect with enforce_eager.",
    )
    gpu_memory_utilization: float = Field(
        default=0.85, gt=0, le=1, description="On a GPU: share of its memory that vLLM takes."
    )
    tensor_parallel_size: int = Field(default=1, ge=1, description="Number of GPUs that share one model.")
    kv_cache_gib: int = Field(default=1, ge=1, description="On a CPU: memory of the KV cache.")
    gpu_kv_cache_gib: float | None = Field(
        default=None,
        gt=0,
        description="On a GPU: memory of the KV cache; what gpu_memory_utilization leaves when not given. Set it where "
        "a trainer or an evaluator starts on the same GPU meanwhile: vLLM would take their memory for its own.",
    )
    cpu_bind: str | None = Field(
        default=None,
        description="On a CPU: cores of the sampler's threads, as `0` or `0-3`; vLLM chooses when not given.",
    )
    transport: TransportName | None = Field(
        default=None,
        description="How weights reach the sampler's worker processes: `in_process` (default on a CPU), `shared_file` "
        "(default on a GPU), or one that an installed package provides.",
    )
    options: dict[str, Any] = Field(
        default_factory=dict, description="Settings of a sampler or transport of another package."
    )
    lora_rank: int = Field(
        default=0,
        ge=0,
        le=512,
        description="Largest rank of the adapter that the sampler takes instead of whole weights; 0 takes whole ones. "
        "A training run sets it.",
    )
    lora_agents: tuple[str, ...] = Field(
        default=(),
        description="With lora_rank: the agents with their own adapter; one adapter for all when empty. A training "
        "run sets it.",
    )
    seed: int = Field(default=0, ge=0, description="Seed of the sampler.")
    start_timeout_s: float = Field(default=300.0, gt=0, description="Deadline of starting the sampler.")
    update_timeout_s: float = Field(default=300.0, gt=0, description="Deadline of one weight update.")

    @model_validator(mode="after")
    def _options_have_a_reader(self) -> Self:
        if self.options and self.type == "vllm" and self.transport in _OWN_TRANSPORTS:
            raise ValueError(f"options ({', '.join(self.options)}) are for a sampler or transport of another package")
        return self


class ProcessEvaluation(_Section):
    """One evaluator, started by the process that runs the episodes (of a training run: rank 0), on its machine."""

    type: Literal["process"] = Field(
        default="process", description="One evaluator on the machine of the process that runs the episodes."
    )


class _RemoteEvaluation(_Section):
    retries: int = Field(
        default=2,
        ge=0,
        le=10,
        description="Times that a lost or `invalid` evaluation is tried again, if possible on another actor or server.",
    )


class RayEvaluation(_RemoteEvaluation):
    """Evaluators in actors of a Ray cluster, spread over its nodes."""

    type: Literal["ray"] = Field(default="ray", description="Evaluators in actors of a Ray cluster.")
    actors: int = Field(default=1, ge=1, le=1024, description="Number of evaluators.")
    cores: int = Field(
        default=1,
        ge=1,
        le=1024,
        description="Cores that each actor reserves, and its evaluations at once unless evaluator.slots says.",
    )
    max_restarts: int = Field(default=3, ge=0, description="Times that one actor is replaced before it is given up.")
    start_timeout_s: float = Field(default=180.0, gt=0, description="Deadline of placing and starting the actors.")


class ServerEvaluation(_RemoteEvaluation):
    """Evaluation servers, which have their own settings."""

    type: Literal["server"] = Field(default="server", description="Evaluation servers.")
    servers: tuple[str, ...] = Field(min_length=1, description="Addresses, for example `http://10.0.0.7:18188`.")
    token_env: str = Field(
        default="WARPSMITH_EVALUATOR_TOKEN",
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="Environment variable that holds the servers' token, which is in no file.",
    )
    deadline_s: float = Field(default=120.0, gt=0, description="Deadline of one verdict, with waiting and retries.")

    @field_validator("servers", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        """Read `a,b` from a command line as a list of two."""
        return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value

    @field_validator("servers")
    @classmethod
    def _addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for server in value:
            if not is_address(server):
                raise ValueError(f"{server!r} is not an address of a server; write it as http://10.0.0.7:18188")
        return tuple(server.rstrip("/") for server in value)


def _typed(value: Any) -> Any:
    """Read `"name"` as the table `{type = "name"}`, and a table without `type` as one of this process."""
    if isinstance(value, str):
        return {"type": value}
    return {"type": "process", **value} if isinstance(value, dict) else value


Evaluation = ProcessEvaluation | RayEvaluation | ServerEvaluation
AnyEvaluation = Annotated[Evaluation, Field(discriminator="type"), BeforeValidator(_typed)]
"""The table `[rollout.evaluation]`, by its `type`."""


class RolloutConfig(_Section):
    """What is asked, how answers are sampled, judged and scored, and when an episode ends."""

    environment: AnyEnvironment = Field(
        default_factory=MultiTurnConfig, description="What is asked for, in how many turns, and when an episode ends."
    )
    prompt_style: PromptStyle = Field(
        default="full", description="How a prompt asks: `full` explains the task, `compact` is for tiny models."
    )
    prompt_tokens: int | None = Field(
        default=None,
        ge=16,
        description="Maximum tokens of a prompt with its earlier turns; when not given, sampler.max_model_len less "
        "sampling.max_tokens.",
    )
    history: HistoryConfig = Field(
        default_factory=HistoryConfig, description="How a prompt shows earlier attempts; the best one is always kept."
    )
    feedback: FeedbackConfig = Field(
        default_factory=FeedbackConfig, description="Which figures of a correct kernel a later turn is shown."
    )
    gamma: float = Field(
        default=0.4, ge=0, le=1, description="Discount of a later turn's score in the return of an earlier turn."
    )
    concurrency: int = Field(default=64, ge=1, description="Maximum episodes that run at once.")
    generate_timeout_s: float = Field(default=600.0, gt=0, description="Deadline of one completion.")
    evaluate_timeout_s: float = Field(
        default=180.0, gt=0, description="Deadline of one evaluation, from when the evaluator has a free slot for it."
    )
    evaluate_wait_s: float = Field(
        default=3600.0, gt=0, description="Deadline of an evaluation's wait for a free slot of the evaluator."
    )
    retries: int = Field(
        default=1, ge=0, description="Times that a failed or late completion or evaluation is tried again."
    )
    operators: OperatorPolicy | None = Field(
        default=None,
        description=f"{POLICY_HELP} The prompt says so. When not given: none for generated problems, library for "
        "others. It takes precedence over evaluator.operators.",
    )
    leave_out_unvaried: bool = Field(
        default=False,
        description="Do not train on problems in which no input, parameter or shape can differ between trials: a "
        "kernel may have memorized their outputs.",
    )
    reward: AnyReward = Field(
        default_factory=PresetRewardConfig,
        description="How a turn is scored: by a preset, a function of your own, or a reward of an installed package.",
    )
    sampling: SamplingConfig = Field(default_factory=SamplingConfig, description="How completions are sampled.")
    sampler: SamplerConfig = Field(default_factory=SamplerConfig, description="What each sampler is.")
    samplers: int = Field(default=1, ge=1, description="Number of samplers, each in its own Ray actor.")
    evaluation: AnyEvaluation = Field(
        default_factory=ProcessEvaluation, description="Where candidates are judged; `[evaluator]` says how."
    )

    @property
    def first_agent(self) -> Agent | None:
        """Who takes the first turn of an episode; None in an environment without agents of this package."""
        if isinstance(self.environment, OptimizeConfig):
            return OPTIMIZER
        return GENERATOR if isinstance(self.environment, GenerateConfig | TwoRoleConfig) else None

    @property
    def agents(self) -> tuple[Agent, ...]:
        """The agents that take turns; none in an environment without agents of this package."""
        if isinstance(self.environment, TwoRoleConfig):
            return GENERATOR, OPTIMIZER
        return () if self.first_agent is None else (self.first_agent,)

    @property
    def handover_gamma(self) -> float:
        """Discount of an agent's first return in the return of the agent's last turn before it; see `TwoRoleConfig`."""
        return self.environment.handover_gamma if isinstance(self.environment, TwoRoleConfig) else 0.0

    @property
    def prompt_budget(self) -> int:
        """Maximum tokens of a prompt: `prompt_tokens`, or what the sampler's length leaves next to a completion."""
        return self.prompt_tokens or self.sampler.max_model_len - self.sampling.max_tokens

    def operators_for(self, problem: "ProblemRow") -> OperatorPolicy:
        """Return what a kernel for a problem may compute with torch."""
        return self.operators or problem.usual_operators

    @model_validator(mode="after")
    def _lengths_fit(self) -> Self:
        if self.prompt_budget < 16 or self.prompt_budget + self.sampling.max_tokens > self.sampler.max_model_len:
            raise ValueError(
                f"prompt_tokens ({self.prompt_tokens}) and sampling.max_tokens ({self.sampling.max_tokens}) do not fit "
                f"sampler.max_model_len ({self.sampler.max_model_len}): lower one of them, or raise the last"
            )
        return self

    @model_validator(mode="after")
    def _verdicts_come_in_time(self) -> Self:
        if isinstance(self.evaluation, ServerEvaluation) and self.evaluation.deadline_s > self.evaluate_timeout_s:
            raise ValueError(
                f"evaluation.deadline_s ({self.evaluation.deadline_s:g}) is more than evaluate_timeout_s "
                f"({self.evaluate_timeout_s:g}), after which no verdict is awaited: lower it, or raise the other"
            )
        return self


ASKED_OF_SERVERS: Final = ("language", "minimum_isolation", "timeout_s", "trials")
"""Keys of `[evaluator]` that count if candidates are judged on servers, which have their own settings."""


class Judged(Protocol):
    """Settings by which candidates are judged: of rollouts and of benches."""

    @property
    def evaluation(self) -> AnyEvaluation:
        """Where candidates are judged."""

    @property
    def evaluate_timeout_s(self) -> float:
        """Deadline of one evaluation that has a slot."""


def unheard_by_servers(rollout: Judged, evaluator: EvaluatorConfig) -> Iterator[str]:
    """Yield what is wrong with each given key of the evaluator that is not sent to servers."""
    given = evaluator.model_fields_set
    # A table with all of its keys is a dump, not a file.
    if rollout.evaluation.type != "server" or given >= EvaluatorConfig.model_fields.keys():
        return
    for key in sorted(given - set(ASKED_OF_SERVERS)):
        yield (
            f"evaluator.{key}: candidates are judged on servers, which have settings of their own; of [evaluator] only "
            f"{', '.join(ASKED_OF_SERVERS)} count then, so remove it"
        )


def unasked_languages(rollout: RolloutConfig, evaluator: EvaluatorConfig) -> Iterator[str]:
    """Yield what is wrong with the kernel language, if no prompt of the environment asks for it.

    An environment of another package has its own prompts.
    """
    own = not isinstance(rollout.environment, OtherEnvironmentConfig)
    if own and (reason := unasked(evaluator.language)):
        yield (
            f"evaluator.language: {reason}. Set one of them, or rollout.environment.type to an environment whose "
            "prompts ask for it"
        )


def late_baselines(rollout: Judged, evaluator: EvaluatorConfig) -> Iterator[str]:
    """Yield what is wrong with the deadlines, if the first evaluation of a problem cannot compile its baselines."""
    names = compiled_ones(evaluator.baseline)
    needed = len(names) * evaluator.baseline_timeout_s + evaluator.timeout_s
    if names and rollout.evaluation.type != "server" and needed > rollout.evaluate_timeout_s:
        yield (
            f"evaluate_timeout_s ({rollout.evaluate_timeout_s:g}): the first evaluation of a problem may take "
            f"{needed:g} s, since it compiles {', '.join(names)}: raise it, or lower evaluator.baseline_timeout_s "
            f"({evaluator.baseline_timeout_s:g})"
        )


class SessionConfig(RolloutConfig):
    """What `warpsmith-rollout evaluate` and `generate` take after `--set`."""

    evaluator: EvaluatorConfig = Field(default_factory=EvaluatorConfig, description="How candidates are judged.")

    @model_validator(mode="after")
    def _every_key_is_read(self) -> Self:
        errors = [*unheard_by_servers(self, self.evaluator), *unasked_languages(self, self.evaluator)]
        errors += late_baselines(self, self.evaluator)
        if self.samplers > 1:
            errors.append("samplers: this command starts one; remove the key, or use several in a training run")
        if self.sampler.lora_rank:
            errors.append("sampler.lora_rank: this command samples whole weights; remove the key")
        if errors:
            raise ValueError("; ".join(errors))
        return self
