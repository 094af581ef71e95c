"""One episode: prompt, completion, kernel, verdict, score; again until it is over.

An episode is one coroutine, so that a slow kernel holds up nobody else.
"""

import hashlib
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.verdict import Verdict
from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.datasets import ProblemRow
from warpsmith.rollout.deadlines import Progress, within, within_phases
from warpsmith.rollout.errors import DeadlinePassedError, PromptTooLongError, SamplerDiedError, SamplerError
from warpsmith.rollout.extract import extract_kernel
from warpsmith.rollout.judging import Judge, as_problem
from warpsmith.rollout.prompts import Attempt, Message, build_prompt
from warpsmith.rollout.reward import RewardTurn, Score
from warpsmith.rollout.rewardfunction import Scorer
from warpsmith.rollout.samplers.base import Completion, Sampler, Sampling
from warpsmith.rollout.tasks import Task

Row = dict[str, Any]

UNVARIED = "problem: nothing in it can differ between trials, and leave_out_unvaried is set"
NO_CODE = "The answer holds no Python code that could define ModelNew."


class Chat(Protocol):
    """The part of `warpsmith.policy.chat.ChatFormat` that episodes need."""

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        """Ids that end a turn."""

    @property
    def opens_thoughts(self) -> bool:
        """Whether the generation prompt ends inside thoughts, so that a completion begins in them."""

    def prompt_ids(self, messages: list[Message]) -> list[int]:
        """Return the ids of a conversation and the generation prompt."""

    def decode(self, ids: list[int]) -> str:
        """Return the text of ids without control tokens."""

    def inert(self, text: str) -> str:
        """Return text with control tokens broken."""


@dataclass(frozen=True)
class Surroundings:
    """What all episodes of a collection share.

    Args:
        sampler: who samples.
        judge: who judges.
        chat: the policy's chat format.
        task: the rules.
        config: everything else.
        scorer: what a turn is worth.
        run: the run's name, for the records.
        role: what the turns are for: `train` or `held_out`.
        after_step: training steps finished so far, for the records; None outside of a training run.
        seed: seed of the sampling, or None for none.
        on_turn: told each turn's row as soon as it is known; `return` is not yet.
        gate: entered before a completion and left after it, see `warpsmith.rollout.gate`; by default it holds nobody.
    """

    sampler: Sampler
    judge: Judge
    chat: Chat
    task: Task
    config: RolloutConfig
    scorer: Scorer
    run: str
    role: str = "train"
    after_step: int | None = None
    seed: int | None = None
    on_turn: Callable[[Row], None] | None = None
    gate: Callable[[], AbstractAsyncContextManager[None]] = nullcontext


@dataclass
class _Turn:
    """A turn as far as it got."""

    messages: list[Message]
    sampling: Sampling
    started_at: datetime
    prompt_ids: list[int] = field(default_factory=list)
    completion: Completion | None = None
    text: str = ""
    kernel: str | None = None
    verdict: Verdict | None = None
    score: Score = field(default_factory=lambda: Score(None, "the turn did not run"))
    generate_s: float | None = None


@dataclass
class _Episode:
    """An episode as far as it got."""

    around: Surroundings
    problem: ProblemRow
    group: str
    sample: int
    turns: list[_Turn] = field(default_factory=list)

    @property
    def trajectory(self) -> str:
        """The trajectory's name in the records."""
        return f"{self.group}/{self.sample}"


async def run_episode(around: Surroundings, problem: ProblemRow, group: str, sample: int) -> list[Row]:
    """Return the rows of one episode, ready for `TURNS`.

    A turn whose generation or evaluation failed for reasons that are not the candidate's ends the episode. It and the
    turns before it are then invalid, since their returns would lack what never came.

    Raises:
        SamplerDiedError: the sampler is gone.
        EvaluatorError: the evaluator is gone or unfit.
        RewardFailedError: the reward function gave no score.
    """
    episode = _Episode(around, problem, group, sample)
    while True:
        episode.turns.append(await _run_turn(episode))
        if around.on_turn is not None:
            around.on_turn(_row(episode, len(episode.turns) - 1))
        if _is_over(around.task, episode.turns):
            return _finished_rows(episode)


def _is_over(task: Task, turns: list[_Turn]) -> bool:
    last = turns[-1]
    if last.score.value is None or last.verdict is None:
        return True
    untimed = last.verdict.correct and last.verdict.speedup is None
    return task.is_over([t.score.value or 0.0 for t in turns], solved_untimed=untimed)


async def _run_turn(episode: _Episode) -> _Turn:
    around = episode.around
    # Time held at the gate is nobody's: it stands in no duration and counts towards no deadline.
    async with around.gate():
        turn = _Turn([], _sampling(around, episode.trajectory, len(episode.turns)), datetime.now(UTC))
        completed = await _is_completed(episode, turn)
    if completed:
        turn.kernel = extract_kernel(turn.text, opened_thoughts=around.chat.opens_thoughts)
        await _judge(episode, turn)
    return turn


async def _is_completed(episode: _Episode, turn: _Turn) -> bool:
    """Ask for the turn's completion; if there is none, the turn's score says why."""
    around, problem, number = episode.around, episode.problem, len(episode.turns)
    try:
        turn.messages = _messages(episode)
        turn.prompt_ids = around.chat.prompt_ids(turn.messages)
        await _complete(around, turn, f"turn {number + 1} of {problem.name}")
    except SamplerDiedError:
        raise
    except PromptTooLongError as error:
        turn.score = Score(None, f"problem: {error}")
    except (SamplerError, DeadlinePassedError) as error:
        turn.score = Score(None, f"generation: {error}")
    else:
        return True
    return False


def _messages(episode: _Episode) -> list[Message]:
    around, config = episode.around, episode.around.config
    return build_prompt(
        episode.problem,
        [Attempt(t.kernel, t.verdict) for t in episode.turns if t.verdict is not None],
        style=config.prompt_style,
        count_tokens=lambda messages: len(around.chat.prompt_ids(messages)),
        budget=config.prompt_budget,
        inert=around.chat.inert,
    )


def _sampling(around: Surroundings, trajectory: str, turn: int) -> Sampling:
    settings = around.config.sampling
    seed = None if around.seed is None else _seed(around.seed, trajectory, turn)
    return Sampling(
        temperature=settings.temperature,
        max_tokens=settings.max_tokens,
        top_p=settings.top_p,
        top_k=settings.top_k,
        min_p=settings.min_p,
        seed=seed,
        stop_token_ids=around.chat.stop_token_ids,
    )


def _seed(seed: int, trajectory: str, turn: int) -> int:
    digest = hashlib.sha256(f"{seed}/{trajectory}/{turn}".encode()).digest()
    return int.from_bytes(digest[:4], "little") >> 1


async def _complete(around: Surroundings, turn: _Turn, what: str) -> None:
    """Sample the completion; a failure is tried again as often as the configuration says."""
    begin = time.monotonic()
    for tries_left in reversed(range(around.config.retries + 1)):
        try:
            request = around.sampler.generate(turn.prompt_ids, turn.sampling)
            turn.completion = await within(around.config.generate_timeout_s, request, f"the completion of {what}")
            break
        except SamplerDiedError:
            raise
        except (SamplerError, DeadlinePassedError):
            if not tries_left:
                raise
    turn.generate_s = time.monotonic() - begin
    turn.text = around.chat.decode(turn.completion.ids) if turn.completion else ""


async def _judge(episode: _Episode, turn: _Turn) -> None:
    around, problem = episode.around, episode.problem
    if turn.kernel is None:
        turn.verdict = Verdict(
            "compile_error", compiled=False, correct=False, error_category="parse_error", error_message=NO_CODE
        )
        turn.score = _scored(episode, turn, turn.verdict)
        return
    for _ in range(around.config.retries + 1):
        try:
            turn.verdict = await _evaluated(around, problem, turn.kernel)
        except BadProblemError as error:
            turn.score = Score(None, f"problem: {error}")
            continue
        except DeadlinePassedError as error:
            turn.score = Score(None, f"evaluation: {error}")
            continue
        if around.config.leave_out_unvaried and "unvaried" in turn.verdict.flags:
            turn.score = Score(None, UNVARIED)
            return
        turn.score = _scored(episode, turn, turn.verdict)
        if turn.score.valid:
            return


def _scored(episode: _Episode, turn: _Turn, verdict: Verdict) -> Score:
    """Return what the turn is worth, which is none of `episode.turns` yet."""
    history = [
        _as_scored(episode, index, earlier, earlier.verdict)
        for index, earlier in enumerate(episode.turns)
        if earlier.verdict is not None
    ]
    number = len(episode.turns)
    name = f"turn {number + 1} of {episode.problem.name} in {episode.trajectory}"
    return episode.around.scorer(_as_scored(episode, number, turn, verdict), history, name)


def _as_scored(episode: _Episode, index: int, turn: _Turn, verdict: Verdict) -> RewardTurn:
    problem, completion = episode.problem, turn.completion
    return RewardTurn(
        index=index,
        problem=problem.name,
        source=problem.source,
        level=problem.level,
        completion=turn.text,
        kernel=turn.kernel,
        completion_tokens=len(completion.ids) if completion else 0,
        truncated=completion is not None and completion.finish_reason == "length",
        verdict=verdict,
        score=turn.score.value,
    )


async def _evaluated(around: Surroundings, problem: ProblemRow, kernel: str) -> Verdict:
    config, progress = around.config, Progress()
    request = around.judge.evaluate_async(
        as_problem(problem),
        kernel,
        trials=config.trials,
        timeout_s=config.candidate_timeout_s,
        on_running=progress.set,
    )
    what = f"the verdict on a kernel for {problem.name}"
    return await within_phases(config.evaluate_wait_s, config.evaluate_timeout_s, progress, request, what)


def _finished_rows(episode: _Episode) -> list[Row]:
    rows = [_row(episode, index) for index in range(len(episode.turns))]
    lost = episode.turns[-1].score.invalid_reason
    if lost is None:
        for row, value in zip(rows, episode.around.task.returns([row["reward"] for row in rows]), strict=True):
            row["return"] = value
        return rows
    for row in rows[:-1]:
        row.update(valid=False, invalid_reason=f"turn {len(rows)} of the trajectory was lost: {lost}")
    return rows


def _row(episode: _Episode, index: int) -> Row:
    around, problem = episode.around, episode.problem
    return {
        "run": around.run,
        "task": around.task.name,
        "role": around.role,
        "problem": problem.name,
        "source": problem.source,
        "level": problem.level,
        "group": episode.group,
        "trajectory": episode.trajectory,
        "sample": episode.sample,
        "turn": index,
        "num_turns": len(episode.turns),
        "after_step": around.after_step,
        **_content(episode.turns[index]),
        **_outcome(episode.turns[index]),
    }


def _content(turn: _Turn) -> Row:
    completion = turn.completion
    sampling = turn.sampling
    return {
        "messages": turn.messages,
        "completion": turn.text,
        "kernel": turn.kernel,
        "prompt_ids": turn.prompt_ids,
        "completion_ids": completion.ids if completion else [],
        "logprobs": completion.logprobs if completion else [],
        "weight_versions": completion.weight_versions if completion else [],
        "finish_reason": completion.finish_reason if completion else None,
        "sampling": {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "min_p": sampling.min_p,
            "max_tokens": sampling.max_tokens,
            "seed": sampling.seed,
        },
    }


def _outcome(turn: _Turn) -> Row:
    seconds = turn.verdict.seconds if turn.verdict else None
    return {
        "verdict": turn.verdict.to_row() if turn.verdict else None,
        "reward": turn.score.value,
        "return": None,
        "valid": turn.score.valid,
        "invalid_reason": turn.score.invalid_reason,
        "started_at": turn.started_at,
        "generate_s": turn.generate_s,
        "compile_s": seconds.compile if seconds else None,
        "wait_s": seconds.wait if seconds else None,
        "evaluate_s": seconds.evaluate if seconds else None,
    }
