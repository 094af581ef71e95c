"""verl: an agent loop in which each turn's kernel is judged and the findings are the policy's next message.

    - name: warpsmith_kernel
      _target_: warpsmith.evaluator.integrations.verl_agent_loop.KernelAgentLoop
      servers: ["http://10.0.0.7:18188"]
      max_turns: 3

That is a file for `actor_rollout_ref.rollout.agent.agent_loop_config_path`; `agent.default_agent_loop`, or the column
`agent_name` of the data set, names the loop. Rows are those of `integrations.verl.rows`. The loop gives verl the reward
of the whole trajectory, so verl calls no reward function for it.

verl has nothing for a trajectory without a reward, so an `invalid` verdict raises InvalidVerdictError: it ends the
step, or with verl's trainer `v1` drops the prompt's group.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput
from verl.utils.profiler import simple_timer
from verl.workers.rollout.replica import TokenOutput

from warpsmith.evaluator.integrations.verl import row_problem
from warpsmith.evaluator.recordings.library_policy import OperatorPolicy
from warpsmith.evaluator.rewards.grader import Grade
from warpsmith.evaluator.rewards.opening import shared_grader
from warpsmith.evaluator.rewards.score import InvalidVerdictError
from warpsmith.records.errors import UsageError

__all__ = ["KernelAgentLoop"]

MAX_TURNS: Final = 3
"""Turns of an episode by default."""


@dataclass
class _Episode:
    """A conversation as verl trains it: one stream of tokens, and a mask of those that the policy wrote.

    Attributes:
        messages: the conversation.
        tokens: the prompt and everything after it.
        mask: for each token after the prompt, 1 if the policy wrote it, else 0.
        logprobs: as sampled, 0.0 where the mask is 0; None if the server gives none.
        grades: one a turn.
        timings: seconds of generation and of judging, over all turns.
        reported: what the server reports besides tokens, such as the weights' version.
    """

    messages: list[dict[str, Any]]
    tokens: list[int]
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] | None = None
    grades: list[Grade] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)
    preempted: int = -1
    routed_experts: Any = None
    reported: dict[str, Any] = field(default_factory=dict)
    request: str = field(default_factory=lambda: uuid4().hex)

    @property
    def best(self) -> Grade:
        """The best turn, the earliest of equals."""
        return max(self.grades, key=_score)

    def note(self, written: TokenOutput) -> None:
        """Keep what the server reports about an answer; the weights may change between two turns."""
        if written.num_preempted is not None:
            self.preempted = max(self.preempted, 0) + written.num_preempted
        if written.routed_experts is not None:
            self.routed_experts = written.routed_experts
        newest = written.extra_fields.get("max_global_steps")
        self.reported = {**written.extra_fields, **self.reported}
        if newest is not None:
            self.reported["max_global_steps"] = newest


class KernelAgentLoop(AgentLoopBase):  # type: ignore[misc]
    """A kernel in several turns; the reward is the best score of a turn.

    An episode ends with a correct kernel, after `max_turns`, or where `rollout.response_length` has no room for the
    findings and another token. Findings are masked: only what the policy wrote is trained.

    Args:
        arguments, others: verl's own.
        servers: addresses of evaluation servers; None takes those of WARPSMITH_EVALUATOR_SERVERS, and without them
            each agent loop worker judges on its own machine.
        operators: what `forward` may compute with PyTorch besides its kernels.
        max_turns: most turns; a lower `rollout.multi_turn.max_assistant_turns` counts.

    Raises:
        UsageError: `max_turns` is below 1.
    """

    def __init__(
        self,
        *arguments: Any,
        servers: Sequence[str] | None = None,
        operators: OperatorPolicy = "none",
        max_turns: int = MAX_TURNS,
        **others: Any,
    ) -> None:
        super().__init__(*arguments, **others)
        if max_turns < 1:
            raise UsageError(f"max_turns is {max_turns}; 1 or more was expected.", f"{MAX_TURNS} is the default.")
        self._servers = list(servers) if servers else None
        self._operators = operators
        self._max_turns = min(max_turns, self.rollout_config.multi_turn.max_assistant_turns or max_turns)
        self._response_length: int = self.rollout_config.response_length
        self._control = _control_tokens(self.tokenizer)

    async def run(self, sampling_params: dict[str, Any], priority: int = 0, **row: Any) -> AgentLoopOutput:
        """Run one episode.

        Args:
            sampling_params: verl's; each turn may use what is left of `rollout.response_length`.
            priority: of the requests, for vLLM.
            row: the row of the data set, with `raw_prompt` and `reward_model`.

        Raises:
            InvalidVerdictError: the evaluator failed.
            UsageError: the row has no problem.
        """
        problem = row_problem(row)
        messages = [dict(message) for message in row["raw_prompt"]]
        episode = _Episode(messages, await self.ct_build_initial_tokens(messages))
        while True:
            completion = await self._generate(episode, sampling_params, int(priority))
            await self._judge(episode, completion, problem)
            ended = episode.grades[-1].verdict.correct or len(episode.grades) >= self._max_turns
            if ended or not await self._tell(episode):
                return self._output(episode)

    async def _generate(self, episode: _Episode, sampling_params: dict[str, Any], priority: int) -> str:
        """Let the policy write; return the text."""
        room = self._response_length - len(episode.mask)
        sampling = {**sampling_params, "max_tokens": min(room, sampling_params.get("max_tokens") or room)}
        with simple_timer("generate_sequences", episode.timings):
            written = await self.server_manager.generate(
                request_id=episode.request,
                prompt_ids=episode.tokens,
                sampling_params=sampling,
                priority=priority,
            )
        episode.note(written)
        known = episode.logprobs if episode.logprobs is not None else ([] if written.log_probs else None)
        merged, episode.mask, episode.logprobs = await self.ct_merge_assistant_token(
            episode.tokens, written.token_ids, episode.mask, known, assistant_logprobs=written.log_probs or None
        )
        episode.tokens = merged.token_ids
        text: str = self.tokenizer.decode(written.token_ids, skip_special_tokens=True)
        episode.messages.append({"role": "assistant", "content": text})
        return text

    async def _judge(self, episode: _Episode, completion: str, problem: str) -> None:
        grader = shared_grader(self._servers, operators=self._operators)
        with simple_timer("tool_calls", episode.timings):
            episode.grades.append(await grader.grade_async(completion, problem))

    async def _tell(self, episode: _Episode) -> bool:
        """Append the findings; return whether there was room for them and for an answer."""
        message = {"role": "user", "content": self._inert(episode.grades[-1].feedback)}
        messages = [*episode.messages, message]
        merged, mask, logprobs = await self.ct_merge_context_msg(
            episode.messages, messages, episode.tokens, episode.mask, episode.logprobs
        )
        if len(mask) >= self._response_length:
            return False
        episode.messages, episode.tokens, episode.mask, episode.logprobs = messages, merged.token_ids, mask, logprobs
        return True

    def _inert(self, text: str) -> str:
        """Break up control tokens: findings quote the candidate, which must not write the conversation's own."""
        for token in self._control:
            text = text.replace(token, f"{token[0]} {token[1:]}")
        return text

    def _output(self, episode: _Episode) -> AgentLoopOutput:
        begin, most = len(episode.tokens) - len(episode.mask), self._response_length
        best, scores = episode.best, [_score(grade) for grade in episode.grades]
        figures = {
            "score": _score(best),
            "acc": float(best.verdict.correct),
            "compiled": float(best.verdict.compiled),
            "speedup": best.verdict.speedup or 0.0,
            "status": best.verdict.status,
            "turns": len(scores),
        }
        experts = episode.routed_experts
        return AgentLoopOutput(
            prompt_ids=episode.tokens[:begin],
            response_ids=episode.tokens[begin:][:most],
            response_mask=episode.mask[:most],
            response_logprobs=None if episode.logprobs is None else episode.logprobs[:most],
            routed_experts=None if experts is None else experts[: begin + most],
            reward_score=_score(best),
            # The prompt, and for each turn the answer and its findings, which the last has not.
            num_turns=2 * len(scores),
            metrics=AgentLoopMetrics(num_preempted=episode.preempted, **episode.timings),
            extra_fields={
                **episode.reported,
                "turn_scores": scores,
                "tool_rewards": [],
                "reward_extra_info": figures,
            },
        )


def _score(grade: Grade) -> float:
    if grade.score is None:
        raise InvalidVerdictError(grade.verdict)
    return grade.score


def _control_tokens(tokenizer: Any) -> list[str]:
    """Return the texts that a tokenizer reads as one token each whatever stands around them, the longest first."""
    added = (str(token) for token in tokenizer.added_tokens_decoder.values())
    return sorted({token for token in (*tokenizer.all_special_tokens, *added) if len(token) > 1}, key=len, reverse=True)
