"""One episode: turns until the environment says that it is done.

An episode is one coroutine, so a slow kernel does not delay other episodes. It is only control flow: the environment
makes prompts and scores answers, and the sampler answers.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace

from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.verdict import Verdict
from warpsmith.records import tracing
from warpsmith.rollout import episode_spans, retries
from warpsmith.rollout.completions import ChatSampler
from warpsmith.rollout.deadlines import within
from warpsmith.rollout.environments.base import AgentEnvironment, Environment
from warpsmith.rollout.errors import (
    DeadlinePassedError,
    PromptTooLongError,
    SamplerDiedError,
    SamplerError,
    StartLostError,
)
from warpsmith.rollout.rewards.score import Score
from warpsmith.rollout.turn_recording import EpisodeLabels, TurnRecord, TurnRow, turn_row
from warpsmith.rollout.turns import Turn

SLACK_FOR_ENVIRONMENTS_S = 5.0
"""Extra time beyond both deadlines of an evaluation: an environment with its own deadlines says which one passed."""


@dataclass(frozen=True)
class EpisodeSetup:
    """What all episodes of a collection share.

    Args:
        environment: makes prompts, and evaluates and scores answers.
        max_turns: turns after which an episode ends in any case.
        sampler: samples answers.
        on_turn: called with each turn's row as soon as the turn ends; `return` is not known yet.
        sampling_allowed: entered before and left after a completion, see `sampling_pause`; by default never blocks.
    """

    environment: Environment
    max_turns: int
    sampler: ChatSampler
    on_turn: Callable[[TurnRow], None] | None = None
    sampling_allowed: Callable[[], AbstractAsyncContextManager[None]] = nullcontext


@dataclass
class _Episode:
    """The state of an episode; `environment` is the setup's, or the one that it began for this episode."""

    setup: EpisodeSetup
    labels: EpisodeLabels
    environment: Environment
    turns: list[TurnRecord] = field(default_factory=list)
    history: list[Turn] = field(default_factory=list)


async def run_episode(setup: EpisodeSetup, labels: EpisodeLabels) -> list[TurnRow]:
    """Return the rows of one episode, ready for `TURNS`.

    If generation or evaluation of a turn fails for reasons other than the candidate, the episode ends. That turn and
    those before it are then invalid, since their returns would lack the missing scores.

    Raises:
        SamplerDiedError: the sampler is gone.
        EvaluatorError: the evaluator is gone or unusable.
        RewardFailedError: the reward returned no score.
    """
    with tracing.span("episode", episode_spans.labels_of(labels)) as span:
        rows = await _rows_of(_Episode(setup, labels, setup.environment))
        span.note(episode_spans.outcome_of(rows))
        return rows


async def _rows_of(episode: _Episode) -> list[TurnRow]:
    if lost := await _begin(episode):
        return [lost]
    while True:
        with tracing.span("turn", {"warpsmith.turn": len(episode.turns) + 1}) as span:
            turn = await _run_turn(episode)
            span.note(episode_spans.turn_of(turn))
        _add(episode, turn)
        if not turn.score.valid or turn.verdict is None:
            return _rows_of_lost(episode)
        episode.history.append(turn.as_turn(episode.labels, len(episode.history), turn.verdict))
        if len(episode.history) >= episode.setup.max_turns or episode.environment.is_done(episode.history):
            return _rows_of_finished(episode)


async def _begin(episode: _Episode) -> TurnRow | None:
    """Begin the environment's episode, if it has agents. Return the only turn, invalid, if that fails."""
    if not isinstance(episode.environment, AgentEnvironment):
        return None
    try:
        episode.environment = await episode.environment.begin(episode.labels.problem)
    except BadProblemError as error:
        reason = f"problem: {error}"
    except (StartLostError, DeadlinePassedError) as error:
        reason = f"evaluation: {error}"
    else:
        return None
    return _add(episode, replace(_new_turn(episode), score=Score(None, reason)))


def _add(episode: _Episode, turn: TurnRecord) -> TurnRow:
    """Add a turn that has ended and report it; return its row."""
    episode.turns.append(turn)
    row = turn_row(episode.labels, episode.turns, len(episode.turns) - 1)
    if episode.setup.on_turn is not None:
        episode.setup.on_turn(row)
    return row


def _new_turn(episode: _Episode) -> TurnRecord:
    environment = episode.environment
    agent = environment.agent(episode.history) if isinstance(environment, AgentEnvironment) else None
    sampling = episode.setup.sampler.sampling(episode.labels.trajectory, len(episode.turns))
    return TurnRecord(replace(sampling, agent=agent), agent)


async def _run_turn(episode: _Episode) -> TurnRecord:
    # Time spent waiting here counts towards no duration and no deadline.
    async with episode.setup.sampling_allowed():
        turn = _new_turn(episode)
        with tracing.span("generate"):
            completed = await _complete(episode, turn)
    if completed:
        turn.kernel = episode.environment.parse(turn.text)
        with tracing.span("judge"):
            await _evaluate(episode, turn)
    return turn


async def _complete(episode: _Episode, turn: TurnRecord) -> bool:
    """Sample the turn's completion; return whether there is one. If not, the turn's score says why."""
    environment, sampler, problem = episode.environment, episode.setup.sampler, episode.labels.problem
    what = f"the completion of turn {len(episode.turns) + 1} of {problem.name}"
    try:
        history = episode.history
        turn.messages = environment.feedback(problem, history) if history else environment.initial_prompt(problem)
        turn.prompt_ids = sampler.chat.prompt_ids(turn.messages)
        turn.completion, turn.generate_s = await sampler.complete(turn.prompt_ids, turn.sampling, what)
    except SamplerDiedError:
        raise
    except PromptTooLongError as error:
        turn.score = Score(None, f"problem: {error}")
    except (SamplerError, DeadlinePassedError) as error:
        turn.score = Score(None, f"generation: {error}")
    else:
        turn.text = sampler.chat.decode(turn.completion.ids)
        return True
    return False


async def _evaluate(episode: _Episode, turn: TurnRecord) -> None:
    """Let the environment evaluate and score the turn."""
    config = episode.setup.sampler.config
    policy = retries.for_evaluations(config.retries)
    try:
        turn.verdict = await retries.with_retries(lambda: _verdict(episode, turn), policy, retries.is_verdict)
    except BadProblemError as error:
        turn.score = Score(None, f"problem: {error}")
    except DeadlinePassedError as error:
        turn.score = Score(None, f"evaluation: {error}")
    else:
        evaluated = turn.as_turn(episode.labels, len(episode.history), turn.verdict)
        turn.score = episode.environment.score(evaluated, episode.history)


async def _verdict(episode: _Episode, turn: TurnRecord) -> Verdict:
    config, problem = episode.setup.sampler.config, episode.labels.problem
    seconds = config.evaluate_wait_s + config.evaluate_timeout_s + SLACK_FOR_ENVIRONMENTS_S
    request = episode.environment.evaluate(problem, turn.kernel)
    return await within(seconds, request, f"the environment's evaluation of an answer to {problem.name}")


def _rows(episode: _Episode) -> list[TurnRow]:
    return [turn_row(episode.labels, episode.turns, index) for index in range(len(episode.turns))]


def _rows_of_finished(episode: _Episode) -> list[TurnRow]:
    rows, environment = _rows(episode), episode.environment
    if isinstance(environment, AgentEnvironment):
        returns = environment.returns_of(episode.history)
    else:
        returns = environment.returns([row["reward"] for row in rows])
    for row, value in zip(rows, returns, strict=True):
        row["return"] = value
    return rows


def _rows_of_lost(episode: _Episode) -> list[TurnRow]:
    rows = _rows(episode)
    for row in rows[:-1]:
        reason = f"turn {len(rows)} of the trajectory was lost: {rows[-1]['invalid_reason']}"
        row.update(valid=False, invalid_reason=reason)
    return rows
