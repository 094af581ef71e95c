"""Evaluators in Ray actors, spread over the nodes of a cluster, behind one interface."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, Unpack

from warpsmith.evaluator import verdict_spans
from warpsmith.evaluator.client.interface import AsyncEvaluationOptions
from warpsmith.evaluator.client.request import EvaluationRequest
from warpsmith.evaluator.client.sources import GivenCandidate, GivenProblem
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.errors import EvaluatorError, JudgeUnavailableError
from warpsmith.evaluator.verdict import Verdict, invalid
from warpsmith.records.errors import UsageError, WarpsmithError
from warpsmith.records.last_words import full_text, oom_kills, retyped, with_notes_of
from warpsmith.records.wording import counted
from warpsmith.rollout import retries
from warpsmith.rollout.cluster.calls import call_with_deadline, lost
from warpsmith.rollout.cluster.logs import write_to
from warpsmith.rollout.config import RayEvaluation
from warpsmith.rollout.deadlines import QueueState, within_phases
from warpsmith.rollout.errors import ActorFailedError, ActorLostError, DeadlinePassedError

if TYPE_CHECKING:
    from ray.actor import ActorHandle

_LOG = logging.getLogger(__name__)

_CALLS_AT_ONCE = 4096
"""Requests that can wait in one actor; its evaluator runs as many at once as it has slots."""


class Limits(NamedTuple):
    """Maximum seconds of one evaluation: in the queue of an actor, and of work once it has a slot."""

    wait_s: float
    work_s: float


class EvaluatorActor:
    """The class that runs inside an actor: one evaluator with its judge, on the GPU that Ray gave the actor, if any."""

    def __init__(self, config: dict[str, Any], log: str | None = None) -> None:
        import ray

        from warpsmith.evaluator import Evaluator

        if log is not None:
            write_to(Path(log))

        self.evaluator = Evaluator(on_assigned_gpu(EvaluatorConfig(**config), ray.get_gpu_ids()))

    async def start(self) -> str:
        """Start the judge and return the id of the node; errors as for `Evaluator`."""
        import ray

        await asyncio.to_thread(self.evaluator.__enter__)
        return str(ray.get_runtime_context().get_node_id())

    async def evaluate(self, request: EvaluationRequest, limits: Limits) -> dict[str, Any]:
        """Return the record of the verdict; see `Evaluator.evaluate`.

        Raises:
            DeadlinePassedError: its time in the queue, or the work on it, took longer than `limits`.
        """
        state = QueueState()
        verdict = self.evaluator.evaluate_async(
            request.problem, request.candidate, **request.options, on_running=state.set
        )
        what = f"a verdict of the evaluator actors on a kernel for {request.problem.name}"
        return (await within_phases(*limits, state, verdict, what)).to_record()


def on_assigned_gpu(config: EvaluatorConfig, gpu_ids: Sequence[int | str]) -> EvaluatorConfig:
    """Return the settings for the GPU that Ray assigned to an actor.

    Raises:
        JudgeUnavailableError: Ray assigned none, or named it by something other than its number.
    """
    if config.device == "cpu":
        return config
    number = str(gpu_ids[0]) if len(gpu_ids) == 1 else ""
    if not number.isdecimal():
        raise JudgeUnavailableError(
            f"Ray assigned the GPUs {list(gpu_ids)} to this evaluator actor; one, by its number, was expected.",
            "Start Ray on that node with CUDA_VISIBLE_DEVICES unset or set to numbers.",
        )
    return config.model_copy(update={"gpu": int(number)})


@dataclass(eq=False)
class Member:
    """The place of one actor: the current actor, and how often it was replaced."""

    number: int
    actor: "ActorHandle"
    node: str = ""
    running: int = 0
    restarts: int = 0
    log: Path | None = None
    revival: "asyncio.Task[None] | None" = None
    given_up: WarpsmithError | None = None

    @property
    def name(self) -> str:
        return f"evaluator actor {self.number}{f' on node {self.node[:8]}' if self.node else ''}"

    @property
    def serves(self) -> bool:
        return self.revival is None and self.given_up is None


class RayEvaluator:
    """Evaluates in `actors` Ray actors. A context manager; then use it within one event loop.

    Each actor has one judge with one device: its own GPU if the evaluator's device is `cuda`. The least loaded actor
    takes the next request. An actor that dies or loses its device is replaced, at most `max_restarts` times, and its
    requests are retried on another one, as are `invalid` verdicts. A request that is lost more often than `retries`
    times ends as `invalid`, never as a score.

    Args:
        config: number and size of the actors.
        evaluator: settings of each actor's evaluator; it has `cores` slots by default.
        limits: of each evaluation.
        logs: a folder for the actors' logs, one file each; Ray's own logs if None.
    """

    def __init__(
        self, config: RayEvaluation, evaluator: EvaluatorConfig, limits: Limits, *, logs: Path | None = None
    ) -> None:
        self.config = config
        self.limits = limits
        self._logs = None if logs is None else logs.absolute()
        self.lost = 0
        self._gpus = int(evaluator.device == "cuda")
        slots = evaluator.slots if "slots" in evaluator.model_fields_set else config.cores
        self._settings = evaluator.model_copy(update={"slots": slots}).model_dump()
        self.members: list[Member] = []

    def __enter__(self) -> Self:
        """Place and start all actors.

        Raises:
            UsageError: the cluster has too few cores.
            EvaluatorError: an evaluator cannot start on its node, or was not placed in time.
        """
        _check_room(self.config, self._gpus)
        for number in range(self.config.actors):
            self.members.append(Member(number, self._new_actor(number), log=self._log(number)))
        try:
            self._await_start()
        except BaseException:
            self._kill_all()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill_all()

    async def evaluate_async(
        self,
        problem: GivenProblem,
        candidate: GivenCandidate,
        **options: Unpack[AsyncEvaluationOptions],
    ) -> Verdict:
        """Return the verdict of one of the actors; see `Evaluator.evaluate_async`.

        `on_running` is not called: the actor applies the limits of queue and work.

        Raises:
            BadProblemError: the problem itself cannot be evaluated.
            DeadlinePassedError: the work or the wait in the queue took longer than `limits`.
            JudgeUnavailableError: every actor died more often than `max_restarts`.
        """
        request = EvaluationRequest.from_options(problem, candidate, options)
        try:
            # An actor traces nothing: its part of the time comes with the verdict.
            with verdict_spans.evaluation(request) as noted:
                async with asyncio.timeout(self._total_s):
                    return noted(await self._evaluate(request))
        except TimeoutError:
            raise DeadlinePassedError(
                f"Waited {self._total_s:g} s for a verdict of the evaluator actors on a kernel for "
                f"{request.problem.name}; it did not come.",
                "Raise evaluate_wait_s, or give more actors or cores.",
            ) from None

    @property
    def _total_s(self) -> float:
        return sum(self.limits)

    async def _evaluate(self, request: EvaluationRequest) -> Verdict:
        causes: list[str] = []
        avoided: Member | None = None

        async def ask_one() -> Verdict:
            nonlocal avoided
            avoided = member = await self._next(avoided)
            verdict = await self._ask(member, request)
            if not retries.is_verdict(verdict):
                causes.append(verdict.error_message or "")
            return verdict

        verdict = await retries.with_retries(ask_one, retries.for_actors(self.config.retries), retries.is_verdict)
        if retries.is_verdict(verdict):
            return verdict
        return invalid(f"No actor returned a verdict in {counted(len(causes), 'attempt')}: {' '.join(causes)}")

    async def _ask(self, member: Member, request: EvaluationRequest) -> Verdict:
        """Return the verdict of one actor; `invalid` with the cause if it was lost, failed, or lost the evaluation."""
        actor = member.actor
        member.running += 1
        try:
            call = actor.evaluate.remote(request, self.limits)
            record = await call_with_deadline(call, self._total_s, member.name, "to judge a candidate", log=member.log)
        except (ActorLostError, JudgeUnavailableError) as error:
            self.lost += 1
            self._replace(member, actor, error)
            return invalid(error.message)
        except ActorFailedError as error:
            return invalid(f"{member.name}: {error.message}")
        finally:
            member.running -= 1
        verdict = Verdict.from_record(record)
        return verdict if retries.is_verdict(verdict) else invalid(f"{member.name}: {verdict.error_message}")

    async def _next(self, avoided: Member | None) -> Member:
        """Return the least loaded serving member, preferably not `avoided`; wait if none is serving."""
        while not (serving := [member for member in self.members if member.serves]):
            revivals = [member.revival for member in self.members if member.revival is not None]
            if not revivals:
                raise self._all_gone()
            await asyncio.wait(revivals, return_when=asyncio.FIRST_COMPLETED)
        return min(serving, key=lambda member: (member is avoided, member.running))

    def _all_gone(self) -> JudgeUnavailableError:
        causes = [member.given_up for member in self.members if member.given_up is not None]
        error = JudgeUnavailableError(
            f"All {len(self.members)} evaluator actors are gone: {causes[0].message}",
            "Fix the cause, then raise evaluation.max_restarts if such deaths are expected.",
        )
        return with_notes_of(error, causes[0])

    def _replace(self, member: Member, dead: "ActorHandle", cause: WarpsmithError) -> None:
        """Replace a dead actor by a new one, once for all requests that saw it die."""
        if member.actor is dead and member.serves:
            member.revival = asyncio.ensure_future(self._revive(member, cause))

    async def _revive(self, member: Member, cause: WarpsmithError) -> None:
        try:
            while member.restarts < self.config.max_restarts:
                member.restarts += 1
                _LOG.warning("Restart %d of %d: %s", member.restarts, self.config.max_restarts, full_text(cause))
                _kill(member.actor)
                member.actor, member.node = self._new_actor(member.number), ""
                start = member.actor.start.remote()
                try:
                    member.node = await call_with_deadline(
                        start, self.config.start_timeout_s, member.name, "to start", log=member.log
                    )
                except (ActorLostError, ActorFailedError, DeadlinePassedError, EvaluatorError) as error:
                    cause = error
                else:
                    return
            member.given_up = cause
        finally:
            member.revival = None

    def _log(self, number: int) -> Path | None:
        return None if self._logs is None else self._logs / f"evaluator-{number}.log"

    def _new_actor(self, number: int) -> "ActorHandle":
        import ray

        options = {
            "num_cpus": self.config.cores,
            "num_gpus": self._gpus,
            "max_concurrency": _CALLS_AT_ONCE,
            "scheduling_strategy": "SPREAD",
            # We restart actors ourselves: at most `max_restarts` times, and a new one gets requests only once its judge
            # runs.
            "max_restarts": 0,
        }
        log = self._log(number)
        return ray.remote(EvaluatorActor).options(**options).remote(self._settings, None if log is None else str(log))

    def _await_start(self) -> None:
        import ray
        from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError

        kills = oom_kills()
        starts = [member.actor.start.remote() for member in self.members]
        try:
            nodes = ray.get(starts, timeout=self.config.start_timeout_s)
        except GetTimeoutError:
            raise JudgeUnavailableError(
                f"{self.config.actors} evaluator actors of {self.config.cores} cores each did not start within "
                f"{self.config.start_timeout_s:g} s; the cluster has {_free_cores():g} cores free.",
                "Use fewer actors or cores, add nodes, or raise evaluation.start_timeout_s.",
            ) from None
        except RayTaskError as error:
            if isinstance(error.cause, EvaluatorError):
                raise error.cause from None
            raise JudgeUnavailableError(
                f"An evaluator actor failed to start: {error.cause}.",
                "The same packages must be installed on all nodes.",
            ) from error
        except RayActorError as error:
            raise retyped(JudgeUnavailableError, lost(error, "an evaluator at its start", kills)) from error
        except RayError as error:
            raise JudgeUnavailableError(
                f"An evaluator actor did not start: {error}", "See Ray's logs of that node."
            ) from error
        for member, node in zip(self.members, nodes, strict=True):
            member.node = node

    def _kill_all(self) -> None:
        """Kill all actors; a judge whose actor is gone stops its workers and itself."""
        for member in self.members:
            if member.revival is not None:
                member.revival.cancel()
            _kill(member.actor)
        self.members.clear()


def _check_room(config: RayEvaluation, gpus: int) -> None:
    import ray

    wanted, there = config.actors * config.cores, ray.cluster_resources().get("CPU", 0)
    if wanted > there:
        raise UsageError(
            f"{config.actors} evaluator actors of {config.cores} cores each need {wanted} cores; the Ray cluster "
            f"has {there:g}.",
            "Lower evaluation.actors or evaluation.cores, or add nodes.",
        )
    if config.actors * gpus > ray.cluster_resources().get("GPU", 0):
        raise UsageError(
            f"{config.actors} evaluator actors need a GPU each; the Ray cluster has "
            f"{ray.cluster_resources().get('GPU', 0):g}.",
            "Lower evaluation.actors, set the evaluator's device to cpu, or add nodes with GPUs.",
        )


def _free_cores() -> float:
    import ray

    return float(ray.available_resources().get("CPU", 0))


def _kill(actor: "ActorHandle") -> None:
    import ray

    if ray.is_initialized():
        ray.kill(actor)
