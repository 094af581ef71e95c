"""Our own routes: the whole verdict on one candidate, or a stream of verdicts."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator

from warpsmith.evaluator.baselines import BASELINES, BaselineName
from warpsmith.evaluator.recordings.library_policy import POLICY_HELP, OperatorPolicy
from warpsmith.evaluator.server.admission import Place
from warpsmith.evaluator.server.answers import OF_LINES, OF_VERDICT
from warpsmith.evaluator.server.errors import RefusalError, body_of, refusal_of
from warpsmith.evaluator.server.requests import add_log_fields, client_of, disconnected, judged, service_of
from warpsmith.evaluator.server.service import Job, Service
from warpsmith.evaluator.server.settings import MOST_TRIALS
from warpsmith.records.errors import WarpsmithError

MOST_FIELDS: Final = 64
MOST_BAD_ITEMS: Final = 16
"""A body with more fields, or a batch with more malformed items, is rejected as a whole."""
LINES: Final = "application/x-ndjson"

router = APIRouter(prefix="/v1")

Shared = Annotated[Service, Depends(service_of)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _of_few_fields(cls, data: Any) -> Any:
        """Reject a body of very many fields at once: each would become a separate error."""
        if isinstance(data, dict) and len(data) > MOST_FIELDS:
            raise ValueError(f"{len(data)} fields, of which at most {len(cls.model_fields)} are known")
        return data


class ProblemBody(_Body):
    """A problem in KernelBench's form."""

    source: str = Field(min_length=1, description="`class Model`, `get_inputs()`, `get_init_inputs()`.")
    name: str = Field(default="problem", min_length=1, max_length=200, description="Its name in messages.")


class EvaluateBody(_Body):
    """One evaluation."""

    problem: ProblemBody
    candidate: str = Field(description="Source of a module that defines `ModelNew`.")
    trials: int | None = Field(
        default=None, ge=1, le=MOST_TRIALS, description="Correctness trials; the server's by default."
    )
    seed: int | None = Field(
        default=None, ge=-(1 << 63), lt=1 << 64, description="Repeats the trials as long as this server runs."
    )
    timeout_s: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, strict=False, description="Deadline of the candidate's run."
    )
    operators: OperatorPolicy | None = Field(default=None, description=f"{POLICY_HELP} The server's policy by default.")
    baseline: list[BaselineName] | None = Field(
        default=None,
        min_length=1,
        max_length=len(BASELINES),
        description="What to compare with, some of the server's baselines, the first for `speedup`; all by default.",
    )
    preferred_device: int | None = Field(
        default=None, description="Wait for this device, unless it is out of service; any by default."
    )
    cache: bool | None = Field(
        default=None, description="Whether a cached verdict is accepted; the server's setting by default."
    )


class BatchBody(_Body):
    """Several evaluations."""

    items: list[EvaluateBody] = Field(min_length=1, max_length=4096)

    @model_validator(mode="before")
    @classmethod
    def _of_few_bad_items(cls, data: Any) -> Any:
        """Reject a batch of many items with unknown fields at once: each would become a separate error."""
        items = data.get("items") if isinstance(data, dict) else None
        if not isinstance(items, list):
            return data
        known = EvaluateBody.model_fields.keys()
        bad = sum(isinstance(item, dict) and not item.keys() <= known for item in items)
        if bad > MOST_BAD_ITEMS:
            raise ValueError(f"{bad} items have unknown fields; {', '.join(known)} were expected")
        return data


@router.post("/evaluate", response_model=None, responses=OF_VERDICT)
async def evaluate(body: EvaluateBody, request: Request, service: Shared) -> dict[str, Any]:
    """Return `{"verdict": ...}`: the record of `warpsmith-evaluator check --json`, whatever the verdict is."""
    verdict = await judged(request, service, job_of(body, service))
    return {"verdict": verdict.to_record()}


@router.post("/evaluate/batch", response_class=StreamingResponse, responses=OF_LINES)
async def evaluate_batch(body: BatchBody, request: Request, service: Shared) -> StreamingResponse:
    """Stream one JSON line per item as soon as it is judged: `{"index", "verdict"}` or `{"index", "error"}`."""
    jobs = [job_of(item, service) for item in body.items]
    places = service.admit(len(jobs), client_of(request))
    tasks = {
        asyncio.ensure_future(_line(service, index, job, place))
        for index, (job, place) in enumerate(zip(jobs, places, strict=True))
    }
    add_log_fields(request, items=len(jobs))
    return StreamingResponse(_lines(request, service, tasks), media_type=LINES)


async def _line(service: Service, index: int, job: Job, place: Place) -> str:
    try:
        verdict = service.cached(job)
        if verdict is None:
            verdict = await service.judge(job, place)
        else:
            place.leave()
        result: dict[str, Any] = {"verdict": verdict.to_record()}
    except WarpsmithError as error:
        result = {"error": body_of(refusal_of(error))["error"]}
    return json.dumps({"index": index, **result}) + "\n"


async def _lines(request: Request, service: Service, tasks: set["asyncio.Task[str]"]) -> AsyncIterator[str]:
    gone = asyncio.ensure_future(disconnected(request))
    try:
        while tasks:
            done, _ = await asyncio.wait({*tasks, gone}, return_when=asyncio.FIRST_COMPLETED)
            if gone in done:
                return
            for task in tasks & done:
                tasks.discard(task)
                yield task.result()
    finally:
        if tasks:  # also if the framework noticed the disconnect first
            service.metrics.abandoned.inc()
        for waiting in (gone, *tasks):
            waiting.cancel()


def job_of(body: EvaluateBody, service: Service) -> Job:
    """Return the evaluation that a body requests; RefusalError beyond the server's bounds."""
    within_bounds(service, body.problem.source, body.candidate, body.timeout_s)
    if body.preferred_device is not None:
        service.device(body.preferred_device)
    return Job(
        body.problem.name,
        body.problem.source,
        body.candidate,
        body.trials,
        body.seed,
        body.timeout_s,
        body.operators,
        _offered(service, body.baseline),
        body.preferred_device,
        body.cache,
    )


def _offered(service: Service, wanted: list[BaselineName] | None) -> tuple[BaselineName, ...] | None:
    """Return the baselines of a body; RefusalError for one that this server does not take."""
    offered = service.config.baseline
    missing = [name for name in wanted or () if name not in offered]
    if missing:
        raise RefusalError(
            422,
            "baseline_not_offered",
            f"baseline {missing[0]} is asked for; this server takes {', '.join(offered)}.",
            "Leave it out, or start the server with --baseline.",
        )
    return None if wanted is None else tuple(dict.fromkeys(wanted))


def within_bounds(service: Service, problem: str, candidate: str, timeout_s: float | None = None) -> None:
    """Reject sources or times beyond the server's bounds."""
    settings = service.settings
    for what, source in (("problem", problem), ("candidate", candidate)):
        if len(source) > settings.max_source_chars:
            raise RefusalError(
                413,
                "source_too_long",
                f"The {what} has {len(source)} characters; at most {settings.max_source_chars} were expected.",
                "Send a shorter one.",
            )
    if timeout_s is not None and timeout_s > settings.max_timeout_s:
        raise RefusalError(
            422,
            "timeout_too_long",
            f"timeout_s is {timeout_s:g}; at most {settings.max_timeout_s:g} were expected.",
            "Choose a shorter one.",
        )
