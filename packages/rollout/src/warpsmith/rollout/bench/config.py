"""Settings of a bench: endpoint, strategy, budget, prices, prompts and judging. Importable without torch."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from warpsmith.evaluator.bench.settings import local_settings, server_settings
from warpsmith.evaluator.client.address import is_address
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.instructions import unasked
from warpsmith.evaluator.recordings.library_policy import POLICY_HELP, OperatorPolicy
from warpsmith.rollout.bench.strategies.config import AnyStrategy, EvolveConfig, SingleConfig
from warpsmith.rollout.bench.strategies.mutations import read_mutations
from warpsmith.rollout.config import (
    AnyEvaluation,
    ProcessEvaluation,
    ServerEvaluation,
    late_baselines,
    unheard_by_servers,
)
from warpsmith.rollout.datasets import ProblemRow
from warpsmith.rollout.feedback_config import FeedbackConfig
from warpsmith.rollout.history import HistoryConfig
from warpsmith.rollout.prompts import PromptStyle
from warpsmith.rollout.rewards.config import AnyReward, PresetRewardConfig
from warpsmith.rollout.settings.session import checked_settings

SCHEMA: Final = "warpsmith-rollout bench schema"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class EndpointConfig(_Section):
    """Where the model runs: an OpenAI-compatible endpoint for chat completions."""

    base_url: str = Field(description="Address up to and including the version: `https://api.openai.com/v1`.")
    api_key_env: str = Field(
        default="OPENAI_API_KEY",
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="Environment variable with the API key, which is in no file. If it is not set, none is sent.",
    )
    in_flight: int = Field(default=16, ge=1, le=4096, description="Maximum concurrent requests.")
    connect_timeout_s: float = Field(default=15.0, gt=0, description="Deadline of a connection.")
    idle_timeout_s: float = Field(default=300.0, gt=0, description="Longest time without a byte of an answer.")
    timeout_s: float = Field(default=1800.0, gt=0, description="Deadline of one whole answer.")
    retries: int = Field(default=6, ge=0, le=100, description="Times that a failed request is tried again.")
    backoff_s: float = Field(default=1.0, gt=0, description="Wait before the first retry; each retry doubles it.")
    max_backoff_s: float = Field(default=60.0, gt=0, description="Longest wait before a retry.")
    give_up_after: int = Field(
        default=8, ge=1, description="The bench ends after this many requests in a row failed with all retries."
    )
    token_limit: Literal["max_tokens", "max_completion_tokens"] = Field(
        default="max_tokens", description="Name of the request's field for sampling.max_tokens."
    )
    stream: bool = Field(
        default=True, description="Stream the answer, so a slow answer is not mistaken for a hanging server."
    )
    omit: tuple[str, ...] = Field(
        default=(), description="Fields to leave out of requests, for endpoints that refuse them, such as temperature."
    )
    extra: dict[str, Any] = Field(
        default_factory=dict, description="Further fields of each request, such as reasoning_effort."
    )

    @field_validator("base_url")
    @classmethod
    def _address(cls, value: str) -> str:
        if not is_address(value):
            raise ValueError(f"{value!r} is not an address; write it as http://127.0.0.1:8000/v1")
        return value.rstrip("/")

    @field_validator("omit", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


class BenchSamplingConfig(_Section):
    """How answers are sampled."""

    temperature: float = Field(default=1.0, ge=0, le=10, description="Sampling temperature; 0 is greedy.")
    top_p: float | None = Field(
        default=None, gt=0, le=1, description="Sample from the likeliest tokens, up to this total probability."
    )
    max_tokens: int = Field(default=8192, ge=1, description="Maximum tokens per answer, reasoning included.")
    seeded: bool = Field(default=False, description="Send a seed with each request; not every endpoint accepts one.")


class BudgetConfig(_Section):
    """What one search may spend; the first limit reached ends it. Without limits it ends after its attempts."""

    tokens: int | None = Field(
        default=None, ge=1, description="Maximum tokens, prompts included. An attempt begins only if it fits in full."
    )
    evaluations: int | None = Field(default=None, ge=1, description="Maximum answers with code that are judged.")


class PricesConfig(_Section):
    """Prices of the endpoint, for the cost of a bench."""

    input_per_million: float | None = Field(default=None, ge=0, description="Price of a million prompt tokens.")
    output_per_million: float | None = Field(default=None, ge=0, description="Price of a million answer tokens.")
    currency: str = Field(default="USD", description="Their currency.")

    @model_validator(mode="after")
    def _both(self) -> Self:
        if (self.input_per_million is None) != (self.output_per_million is None):
            raise ValueError("input_per_million and output_per_million: give both, or neither")
        return self

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """Return what tokens cost; None without prices."""
        if self.input_per_million is None or self.output_per_million is None:
            return None
        return (prompt_tokens * self.input_per_million + completion_tokens * self.output_per_million) / 1e6


class BenchConfig(_Section):
    """What `warpsmith-rollout bench` takes after `--set`."""

    model: str = Field(description="Name of the model at the endpoint.")
    endpoint: EndpointConfig = Field(description="Where the model runs, and how it is queried.")
    strategy: AnyStrategy = Field(default_factory=SingleConfig, description="How a search spends its attempts.")
    samples: int = Field(default=1, ge=1, le=10_000, description="Independent searches of each problem, for pass@k.")
    budget: BudgetConfig = Field(default_factory=BudgetConfig, description="What one search may spend.")
    prices: PricesConfig = Field(default_factory=PricesConfig, description="What tokens cost.")
    sampling: BenchSamplingConfig = Field(default_factory=BenchSamplingConfig, description="How answers are sampled.")
    seed: int = Field(default=0, description="Seed of selection, mutation, and with sampling.seeded of the answers.")
    context_tokens: int = Field(
        default=32768, ge=16, description="Maximum tokens of a prompt and its answer; history is shortened to fit."
    )
    prompt_style: PromptStyle = Field(
        default="full", description="How a prompt asks: `full` explains the task, `compact` is for tiny models."
    )
    history: HistoryConfig = Field(default_factory=HistoryConfig, description="How a prompt shows earlier attempts.")
    feedback: FeedbackConfig = Field(
        default_factory=FeedbackConfig, description="Which figures of a correct kernel a prompt shows."
    )
    operators: OperatorPolicy | None = Field(
        default=None,
        description=f"{POLICY_HELP} When not given: none for generated problems, library for others.",
    )
    reward: AnyReward = Field(
        default_factory=PresetRewardConfig, description="The score of an attempt in the records; no strategy uses it."
    )
    evaluate_timeout_s: float = Field(default=180.0, gt=0, description="Deadline of one evaluation that has a slot.")
    evaluate_wait_s: float = Field(default=3600.0, gt=0, description="Deadline of an evaluation's wait for a slot.")
    retries: int = Field(default=1, ge=0, description="Times that a failed or late evaluation is tried again.")
    evaluation: AnyEvaluation = Field(
        default_factory=ProcessEvaluation, description="Where candidates are judged; `[evaluator]` says how."
    )
    evaluator: EvaluatorConfig = Field(default_factory=EvaluatorConfig, description="How candidates are judged.")

    @property
    def prompt_budget(self) -> int:
        """Maximum tokens of a prompt."""
        return self.context_tokens - self.sampling.max_tokens

    def operators_for(self, problem: ProblemRow) -> OperatorPolicy:
        """Return what a kernel for a problem may compute with torch."""
        return self.operators or problem.usual_operators

    @model_validator(mode="after")
    def _lengths_fit(self) -> Self:
        if self.prompt_budget < 16:
            raise ValueError(
                f"sampling.max_tokens ({self.sampling.max_tokens}) leaves no room for a prompt in context_tokens "
                f"({self.context_tokens}): lower it, or raise the other"
            )
        if self.budget.tokens is not None and self.budget.tokens <= self.sampling.max_tokens:
            raise ValueError(
                f"budget.tokens ({self.budget.tokens}) does not allow one answer of sampling.max_tokens "
                f"({self.sampling.max_tokens}): raise it, or lower the other"
            )
        return self

    @model_validator(mode="after")
    def _every_key_is_read(self) -> Self:
        wrong = [*unheard_by_servers(self, self.evaluator), *late_baselines(self, self.evaluator)]
        if unknown := unasked(self.evaluator.language):
            wrong.append(f"evaluator.language: {unknown}")
        if wrong:
            raise ValueError("; ".join(wrong))
        return self


def bench_config(overrides: Sequence[str], given: dict[str, Any]) -> BenchConfig:
    """Return the settings of a bench's options, changed by what follows `--set`; see `checked_settings`."""
    return checked_settings(BenchConfig, overrides, given, schema=SCHEMA)


def judging_settings(config: BenchConfig) -> dict[str, Any]:
    """Return what verdicts depend on; servers are asked for their own.

    Raises:
        ServerError: none answers.
        OtherConditionsError: their settings or versions differ.
    """
    evaluator = config.evaluator
    if not isinstance(config.evaluation, ServerEvaluation):
        return dict(local_settings(evaluator)) | {"operators": config.operators}
    from warpsmith.evaluator import Client
    from warpsmith.evaluator.client.remote import common_conditions

    with Client(config.evaluation.servers, token_env=config.evaluation.token_env) as client:
        conditions = common_conditions(client.health())
    asked = server_settings(conditions, evaluator.trials, evaluator.timeout_s, "none")
    return dict(asked) | {"operators": config.operators}


def settings_of(config: BenchConfig, judging: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a result depends on, as JSON values: a bench is resumed, and compared, only under the same.

    Address, key, deadlines, retries, prices and the number of requests at once do not count.
    """
    plain = config.model_dump(mode="json")
    endpoint = {name: plain["endpoint"][name] for name in ("token_limit", "omit", "extra")}
    names = (
        "model", "strategy", "samples", "budget", "sampling", "seed", "context_tokens", "prompt_style", "history",
        "feedback", "reward",
    )  # fmt: skip
    settings = {name: plain[name] for name in names}
    if isinstance(config.strategy, EvolveConfig):
        mutations = [one.model_dump(mode="json") for one in read_mutations(config.strategy.mutations)]
        # What the file says counts, wherever it is.
        settings["strategy"]["mutations"] = digest_of(mutations)
    return settings | {"request": endpoint, "judging": dict(judging)}


def problem_set(problems: Sequence[ProblemRow]) -> dict[str, Any]:
    """Return the name of a set of problems: their number, and a digest of their names and sources in order."""
    each = [[problem.name, problem.level, problem.to_problem().key] for problem in problems]
    return {"problems": len(problems), "sha256": digest_of(each)}


def digest_of(value: Any) -> str:
    """Return the SHA-256 of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def differing(one: Mapping[str, Any], other: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return the dotted names of the settings in which two nested tables differ."""
    found: list[str] = []
    for name in sorted({*one, *other}):
        left, right, dotted = one.get(name), other.get(name), f"{prefix}{name}"
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            found += differing(left, right, f"{dotted}.")
        elif left != right:
            found.append(dotted)
    return found
