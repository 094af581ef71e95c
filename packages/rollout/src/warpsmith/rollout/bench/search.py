"""One search: rounds of attempts until the strategy, the budget or a loss ends it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from warpsmith.evaluator.bench.verdict_log import Outcome, Refusal, ended_now
from warpsmith.evaluator.extract import extract_kernel, strip_thoughts
from warpsmith.evaluator.feedback import no_code
from warpsmith.evaluator.verdict import Seconds, Verdict, invalid
from warpsmith.rollout.bench.answers import Answer, estimated_prompt
from warpsmith.rollout.bench.budget import Budget
from warpsmith.rollout.bench.config import BenchConfig
from warpsmith.rollout.bench.endpoint import Endpoint
from warpsmith.rollout.bench.errors import ContextTooLongError, RetryableError, StrategyError
from warpsmith.rollout.bench.judging import Judge
from warpsmith.rollout.bench.prompting import SHORTER, Prompter
from warpsmith.rollout.bench.recording import (
    Made,
    RecordedAttempt,
    Recorder,
    SearchName,
    answer_of,
    figures_of,
    seed_of,
)
from warpsmith.rollout.bench.strategies.base import Attempt, Plan, Strategy
from warpsmith.rollout.bench.strategies.ranking import best_of
from warpsmith.rollout.concurrency import all_or_first_error
from warpsmith.rollout.errors import PromptTooLongError
from warpsmith.rollout.prompts import Message
from warpsmith.rollout.rewards.base import FOREIGN_ERRORS, Scorer, describe_error
from warpsmith.rollout.rewards.score import Score
from warpsmith.rollout.turns import Turn

Ended = Literal["attempts", "solved", "tokens", "evaluations", "lost", "refused"]
SHORTENINGS: Final = 3
"""How often a prompt is shortened because the endpoint counts more tokens than were estimated."""
UNJUDGED: Final = "The bench ended before there was a verdict; its next run judges the answer."
REFUSED: Final = "problem: "
"""Beginning of the reason of an attempt whose problem cannot be asked or judged."""


@dataclass(frozen=True)
class SearchOutcome:
    """A search that has ended.

    Attributes:
        name: its problem and sample.
        attempts: those with a verdict, in order.
        ended: why it ended. `attempts`: the strategy made all of its attempts; `solved`: one is correct and nothing is
            timed; `tokens` and `evaluations`: that budget is spent; `lost`: an attempt has no verdict, which is not
            the model's failure, and the next run of the command repeats it; `refused`: the problem cannot be asked or
            judged.
        reason: why it was lost or refused; empty otherwise.
        extra_tokens: prompt and answer tokens of attempts without a verdict.
        known: whether all of its attempts were recorded before.
    """

    name: SearchName
    attempts: tuple[Attempt, ...]
    ended: Ended
    reason: str = ""
    extra_tokens: tuple[int, int] = (0, 0)
    known: bool = field(default=False, compare=False)

    @property
    def scored(self) -> bool:
        """Whether it counts as a success or a failure."""
        return self.ended not in ("lost", "refused")

    @property
    def best(self) -> Attempt | None:
        """The search's answer; None without attempts."""
        return best_of(self.attempts)


@dataclass(frozen=True)
class SearchParts:
    """What all searches of a bench share.

    Args:
        on_lost: called with the error of a request that failed with all retries, and with None after each answer.
    """

    config: BenchConfig
    endpoint: Endpoint
    judge: Judge
    strategy: Strategy
    prompter: Prompter
    recorder: Recorder
    scorer: Scorer
    on_lost: Callable[[RetryableError | None], None]


async def run_search(parts: SearchParts, name: SearchName, recorded: Mapping[int, RecordedAttempt]) -> SearchOutcome:
    """Make the attempts of a search that are not recorded yet, and return how it ended.

    Args:
        parts: what all searches share.
        name: the search.
        recorded: its attempts so far. Those with a verdict count; of one whose evaluation was lost the answer is
            judged again, and one without an answer is asked for again.

    Raises:
        FinalEndpointError: no request can succeed.
        EvaluatorError: the evaluator is gone or unusable.
        RewardFailedError: the reward gave no score.
        StrategyError: the strategy failed.
    """
    return await _Search(parts, name, recorded).run()


@dataclass
class _Search:
    parts: SearchParts
    name: SearchName
    recorded: Mapping[int, RecordedAttempt]
    attempts: dict[int, Attempt] = field(default_factory=dict)
    lost: list[Made] = field(default_factory=list)
    new: bool = False

    async def run(self) -> SearchOutcome:
        """Make rounds until one ends the search."""
        return replace(await self._ended(), known=not self.new)

    async def _ended(self) -> SearchOutcome:
        config = self.parts.config
        budget = Budget(config.budget, config.sampling.max_tokens)
        while True:
            made = self._made()
            plans = self._planned(made)
            if not plans:
                solved = any(attempt.solved_untimed for attempt in made)
                return SearchOutcome(self.name, made, "solved" if solved else "attempts")
            try:
                prompts = [self.parts.prompter.prompt(self.name.problem, plan, self.attempts) for plan in plans]
            except PromptTooLongError as error:
                return SearchOutcome(self.name, made, "refused", str(error))
            count, spent = budget.affordable(made, [estimated_prompt(messages) for messages in prompts])
            if spent and not count:
                return SearchOutcome(self.name, made, spent)
            # What does not fit now may fit once it is known what this part of the round has really spent.
            await self._round(plans[:count], prompts[:count])
            if self.lost:
                return self._without_score()

    def _planned(self, made: Sequence[Attempt]) -> list[Plan]:
        """Return the next round.

        Raises:
            StrategyError: the strategy, which may be another package's, failed or did not number its plans in order.
        """
        config = self.parts.config
        try:
            plans = self.parts.strategy.plan(f"{config.seed}/{self.name.trajectory}", made)
            fits = [plan.index for plan in plans] == list(range(len(made), len(made) + len(plans)))
            shown = {parent for plan in plans for parent in plan.parents}
        except FOREIGN_ERRORS as error:
            raise StrategyError(
                f"The strategy `{config.strategy.type}` failed: {describe_error(error)}.", "Fix the strategy."
            ) from error
        if not fits or shown - self.attempts.keys():
            raise StrategyError(
                f"The strategy `{config.strategy.type}` planned the attempts {[plan.index for plan in plans]} with the "
                f"parents {sorted(shown)} after {len(made)} attempts.",
                f"Number plans from {len(made)} on, and name parents among the attempts that were made.",
            )
        return plans

    def _made(self) -> tuple[Attempt, ...]:
        return tuple(attempt for _, attempt in sorted(self.attempts.items()))

    async def _round(self, plans: Sequence[Plan], prompts: Sequence[list[Message]]) -> None:
        """Make the attempts of a round concurrently. All of them end, even if one is lost."""
        before, planned = dict(self.attempts), len(self.attempts) + len(plans)
        ended = await all_or_first_error(
            [
                _Attempting(self.parts, self.name, plan, planned, before).run(messages, self.recorded.get(plan.index))
                for plan, messages in zip(plans, prompts, strict=True)
            ]
        )
        for made, attempt in ended:
            self.new |= made.new
            if attempt is None:
                self.lost.append(made)
            else:
                self.attempts[attempt.index] = attempt

    def _without_score(self) -> SearchOutcome:
        reasons = [lost.score.invalid_reason or "" for lost in self.lost]
        refused = [reason for reason in reasons if reason.startswith(REFUSED)]
        answers = [lost.answer for lost in self.lost if lost.answer is not None]
        extra = sum(one.prompt_tokens for one in answers), sum(one.completion_tokens for one in answers)
        if refused:
            return SearchOutcome(self.name, self._made(), "refused", refused[0].removeprefix(REFUSED), extra)
        return SearchOutcome(self.name, self._made(), "lost", reasons[0], extra)


@dataclass(frozen=True)
class _Attempting:
    """One attempt, from its prompt to its record.

    Args:
        planned: attempts of the search so far, with those of this round.
        before: the attempts of earlier rounds, by number.
    """

    parts: SearchParts
    name: SearchName
    plan: Plan
    planned: int
    before: dict[int, Attempt]

    async def run(self, messages: list[Message], row: RecordedAttempt | None) -> tuple[Made, Attempt | None]:
        """Make the attempt, or continue the recorded one; return it, and its outcome if it has a verdict."""
        made = Made(self.plan, messages, seed=seed_of(self.parts.config, self.name, self.plan.index))
        if row is not None and (answer := answer_of(row)) is not None:
            # The prompt that was answered may be a shortened one.
            made.answer, made.messages = answer, row["messages"]
        if row is not None and made.answer is None and _is_final(row):
            made.score = Score(None, row["invalid_reason"])
            return made, None
        asked = made.answer is None
        if made.answer is None:
            await self._ask(made)
        # A recorded verdict costs nothing here: it is in the log.
        judged = made.answer is not None and await self._judge(made, made.answer, new=asked)
        made.new = asked or judged
        if made.new or row is None or not _is_final(row):
            self._record(made)
        else:
            made.judge_s = figures_of(row).get("judge_s", 0.0)
        return made, self._attempt(made)

    async def _ask(self, made: Made) -> None:
        """Ask the endpoint; if there is no answer, the attempt's score says why."""
        share = 1.0
        for shortening in range(SHORTENINGS + 1):
            try:
                made.answer = await self.parts.endpoint.complete(made.messages, made.seed)
                self.parts.on_lost(None)
                return
            except ContextTooLongError as error:
                made.score = Score(None, f"{REFUSED}{error}")
                share *= SHORTER
                if shortening == SHORTENINGS or not self._shortened(made, share):
                    return
            except RetryableError as error:
                made.score = Score(None, f"generation: {error}")
                self.parts.on_lost(error)
                return

    def _shortened(self, made: Made, share: float) -> bool:
        """Give the attempt a shorter prompt; return whether there is one."""
        if not self.plan.parents:
            return False
        try:
            made.messages = self.parts.prompter.prompt(self.name.problem, self.plan, self.before, share=share)
        except PromptTooLongError:
            return False
        return True

    async def _judge(self, made: Made, answer: Answer, *, new: bool) -> bool:
        """Give the attempt its verdict and score; return whether it had to be judged.

        A new answer is recorded before it is judged: it costs money, and a kill must not lose it.
        """
        made.kernel = extract_kernel(answer.text)
        if made.kernel is None:
            self._decide(made, answer, ended_now("", verdict=_without_code(answer)))
            return False
        known = self.parts.judge.known(self.name.problem, made.kernel)
        if known is not None:
            self._decide(made, answer, _as_cached(known) if new else known)
            return False
        if new:
            made.verdict, made.score = invalid(UNJUDGED), Score(None, f"evaluation: {UNJUDGED}")
            self._record(made)
        outcome, made.judge_s = await self.parts.judge.judge(self.name.problem, made.kernel)
        self._decide(made, answer, outcome)
        return True

    def _record(self, made: Made) -> None:
        self.parts.recorder.record(self.name, made, self.planned)

    def _decide(self, made: Made, answer: Answer, outcome: Outcome) -> None:
        verdict = outcome.verdict
        if verdict is None:
            refusal = outcome.refusal or Refusal("The evaluator gave no verdict.", "")
            reason = f"{refusal.message} {refusal.remedy}".strip()
            # Still a verdict: it carries the figures of the answer.
            made.verdict, made.score = invalid(reason), Score(None, f"{REFUSED}{reason}")
            return
        history = [self.before[index].turn for index in self.plan.parents]
        made.verdict = verdict
        made.score = self.parts.scorer(self._turn(made, answer, verdict), history)

    def _turn(self, made: Made, answer: Answer, verdict: Verdict) -> Turn:
        problem = self.name.problem
        return Turn(
            index=self.plan.index,
            problem=problem.name,
            source=problem.source,
            level=problem.level,
            completion=answer.text,
            kernel=made.kernel,
            completion_tokens=answer.completion_tokens,
            truncated=answer.finish_reason == "length",
            verdict=verdict,
            score=made.score.value,
            trajectory=self.name.trajectory,
        )

    def _attempt(self, made: Made) -> Attempt | None:
        answer, verdict = made.answer, made.verdict
        if not made.score.valid or answer is None or verdict is None:
            return None
        return Attempt(
            self.plan,
            self._turn(made, answer, verdict),
            answer.prompt_tokens,
            answer.completion_tokens,
            answer.estimated,
            answer.seconds,
            made.judge_s,
        )


def _is_final(row: RecordedAttempt) -> bool:
    """Return whether a recorded attempt has its verdict, or belongs to a refused problem."""
    return row["invalid_reason"] is None or row["invalid_reason"].startswith(REFUSED)


def _as_cached(known: Outcome) -> Outcome:
    """Return the outcome for another answer with the same kernel, which cost no time."""
    verdict = known.verdict
    return known if verdict is None else replace(known, verdict=replace(verdict, cached=True, seconds=Seconds()))


def _without_code(answer: Answer) -> Verdict:
    """Return the verdict on an answer without code, which says so if it is empty or was cut off."""
    if answer.finish_reason == "length":
        message = f"The answer was cut off after {answer.completion_tokens} tokens, before it had any code."
        return replace(no_code(), error_message=message)
    if not strip_thoughts(answer.text).strip():
        return replace(no_code(), error_message="The answer is empty.")
    return no_code()
