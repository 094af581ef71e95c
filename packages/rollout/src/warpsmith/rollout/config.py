"""Configuration of rollouts. Importable without torch, vllm or ray."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from warpsmith.evaluator.client.address import is_address
from warpsmith.rollout.prompts import PromptStyle
from warpsmith.rollout.registries import EnvironmentName, SamplerName, TransportName
from warpsmith.rollout.rewards.config import AnyReward, PresetRewardConfig


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


_OWN_TRANSPORTS = (None, "in_process", "shared_file")
_OWN_ENVIRONMENTS = ("kernelbench", "kernelbench_multiturn")


class SamplingConfig(_Section):
    """How completions are sampled. A training run refuses top-p, top-k and min-p, which bias its ratio; None: off."""

    temperature: float = Field(default=1.0, ge=0, le=10, description="0 takes the likeliest token.")
    top_p: float | None = Field(default=None, gt=0, le=1, description="Keep the likeliest tokens of this total mass.")
    top_k: int | None = Field(default=None, ge=1, description="Keep this many of the likeliest tokens.")
    min_p: float | None = Field(default=None, ge=0, le=1, description="Keep tokens this likely beside the likeliest.")
    max_tokens: int = Field(default=1024, ge=1, description="Most tokens of one completion.")


class SamplerConfig(_Section):
    """One sampler: vLLM in process on a CPU, asynchronous vLLM on a GPU, or one that another package provides."""

    type: SamplerName = Field(default="vllm", description="`vllm`, or a sampler of an installed package.")
    device: Literal["cpu", "cuda"] = Field(default="cpu", description="Where the model is sampled.")
    dtype: Literal["float32", "bfloat16", "float16"] = Field(default="bfloat16", description="Type of the weights.")
    max_model_len: int = Field(default=2048, ge=16, description="Most tokens of a prompt and its completion.")
    max_sequences: int = Field(default=32, ge=1, description="Sequences sampled at once.")
    max_batched_tokens: int = Field(default=32768, ge=64, description="Most tokens of one step.")
    enforce_eager: bool = Field(default=False, description="GPU: do not capture graphs. A CPU is always eager.")
    gpu_memory_utilization: float = Field(default=0.85, gt=0, le=1, description="GPU: share of memory to take.")
    tensor_parallel_size: int = Field(default=1, ge=1, description="GPU: devices that share the model.")
    kv_cache_gib: int = Field(default=1, ge=1, description="CPU: memory of the KV cache, GiB.")
    cpu_bind: str | None = Field(
        default=None, description="CPU: cores of the sampler's threads, as `0` or `0-3`; None leaves it to vLLM."
    )
    transport: TransportName | None = Field(
        default=None,
        description="How weights reach the sampler's worker processes: `in_process` (default on a CPU), `shared_file` "
        "(default on a GPU), or one that an installed package provides.",
    )
    options: dict[str, Any] = Field(
        default_factory=dict, description="Settings of a sampler or transport that another package provides."
    )
    lora_rank: int = Field(
        default=0,
        ge=0,
        le=512,
        description="Largest rank of the adapter that the sampler takes in place of whole weights; 0 takes whole ones. "
        "A training run sets it.",
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
    """Candidates are judged by an evaluator of this process."""

    type: Literal["process"] = Field(default="process", description="An evaluator of this process.")


class _RemoteEvaluation(_Section):
    retries: int = Field(
        default=2, ge=0, le=10, description="Retries of a lost or `invalid` evaluation, elsewhere first."
    )


class RayEvaluation(_RemoteEvaluation):
    """Candidates are judged in actors of a Ray cluster."""

    type: Literal["ray"] = Field(default="ray", description="Evaluators in actors of a Ray cluster.")
    actors: int = Field(default=1, ge=1, le=1024, description="Evaluators, spread over the nodes.")
    cores: int = Field(
        default=1, ge=1, le=1024, description="Cores that each actor reserves, and evaluations at once in it."
    )
    max_restarts: int = Field(default=3, ge=0, description="Restarts of one actor before it is given up.")
    start_timeout_s: float = Field(default=180.0, gt=0, description="Deadline of placing and starting the actors.")
    deadline_s: float = Field(
        default=120.0, gt=0, description="Deadline of one evaluation, from when an actor has a free slot for it."
    )
    wait_s: float = Field(default=3600.0, gt=0, description="How long one evaluation may wait for a slot of an actor.")


class ServerEvaluation(_RemoteEvaluation):
    """Candidates are judged on evaluation servers."""

    type: Literal["server"] = Field(default="server", description="Evaluation servers.")
    servers: tuple[str, ...] = Field(min_length=1, description="Addresses, for example `http://10.0.0.7:18188`.")
    token_env: str = Field(
        default="WARPSMITH_EVALUATOR_TOKEN",
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="Environment variable that holds the token; the token itself is in no file.",
    )
    deadline_s: float = Field(default=120.0, gt=0, description="Deadline of one verdict, waiting and retries included.")

    @field_validator("servers", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        """Take `a,b` from a command line for a list of two."""
        return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value

    @field_validator("servers")
    @classmethod
    def _addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for server in value:
            if not is_address(server):
                raise ValueError(f"{server!r} is no address of a server; write it as http://10.0.0.7:18188")
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
    """What is asked, how it is sampled, judged and scored, and when an episode ends."""

    task_type: EnvironmentName = Field(
        default="kernelbench_multiturn",
        description="`kernelbench`, `kernelbench_multiturn`, or an environment of an installed package.",
    )
    environment: dict[str, Any] = Field(
        default_factory=dict, description="Settings of an environment that another package provides."
    )
    prompt_style: PromptStyle = Field(default="full", description="`compact` is for tiny models.")
    prompt_tokens: int | None = Field(default=None, ge=16, description="Token budget of a prompt with its history.")
    max_turns: int = Field(default=3, ge=1, le=64, description="Turns of an episode.")
    gamma: float = Field(default=0.4, ge=0, le=1, description="Discount of the returns.")
    success_score: float = Field(default=1.3, gt=0, description="Score that ends an episode.")
    max_consecutive_failures: int = Field(default=2, ge=1, description="Turns of score 0 in a row that end an episode.")
    concurrency: int = Field(default=64, ge=1, description="Episodes that run at once.")
    generate_timeout_s: float = Field(default=600.0, gt=0, description="Deadline of one completion.")
    evaluate_timeout_s: float = Field(
        default=180.0, gt=0, description="Deadline of one evaluation, from when the evaluator has a free slot for it."
    )
    evaluate_wait_s: float = Field(
        default=3600.0, gt=0, description="How long one evaluation may wait for a slot of the evaluator."
    )
    candidate_timeout_s: float = Field(default=30.0, gt=0, description="Time limit of one candidate's run.")
    retries: int = Field(default=1, ge=0, description="Retries of a failed or late completion or evaluation.")
    trials: int = Field(default=3, ge=1, description="Correctness trials of one evaluation.")
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
    sampler: SamplerConfig = Field(default_factory=SamplerConfig, description="The sampler.")
    samplers: int = Field(default=1, ge=1, description="Samplers, each an actor of its own.")
    evaluation: AnyEvaluation = Field(
        default_factory=ProcessEvaluation, description="Where candidates are judged; `[evaluator]` says how."
    )

    @property
    def prompt_budget(self) -> int:
        """Most tokens of a prompt: `prompt_tokens`, or what the sampler's length leaves beside a completion."""
        return self.prompt_tokens or self.sampler.max_model_len - self.sampling.max_tokens

    @model_validator(mode="after")
    def _environments_settings_have_a_reader(self) -> Self:
        if self.environment and self.task_type in _OWN_ENVIRONMENTS:
            raise ValueError(
                f"environment ({', '.join(self.environment)}): `{self.task_type}` has no keys in this table; its "
                "settings are max_turns, gamma, success_score and max_consecutive_failures"
            )
        return self

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
        if isinstance(self.evaluation, ProcessEvaluation):
            return self
        if self.evaluation.deadline_s > self.evaluate_timeout_s:
            raise ValueError(
                f"evaluation.deadline_s ({self.evaluation.deadline_s:g}) is more than evaluate_timeout_s "
                f"({self.evaluate_timeout_s:g}), after which no verdict is awaited: lower it, or raise the other"
            )
        return self
