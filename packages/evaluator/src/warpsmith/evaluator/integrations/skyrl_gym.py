"""SkyRL-Gym: an environment in which each turn's kernel is judged and the feedback is the next observation.

    skyrl_gym.register(id="kernel", entry_point="warpsmith.evaluator.integrations.skyrl_gym:KernelEnv")

SkyRL-Gym has nothing for a turn without a reward, so an `invalid` verdict raises InvalidVerdictError out of `step`.
"""

from typing import Any

from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

from warpsmith.evaluator.rewards.opening import shared_grader
from warpsmith.records.errors import UsageError

__all__ = ["KernelEnv"]


class KernelEnv(BaseTextEnv):  # type: ignore[misc]
    """A kernel in several turns; the reward of a turn is its score.

    Args:
        env_config: settings, of which `servers` (addresses) and `operators` are read.
        extras: the row of the data set: the problem's source in `reward_spec.ground_truth`, and `max_turns` (1).

    Raises:
        UsageError: the row has no problem.
    """

    def __init__(self, env_config: Any = None, extras: dict[str, Any] | None = None) -> None:
        super().__init__()
        row, settings = extras or {}, env_config or {}
        problem = row.get("reward_spec", {}).get("ground_truth")
        if not problem:
            raise UsageError("The row has no problem.", "Put its source into reward_spec.ground_truth.")
        self.max_turns = row.get("max_turns", 1)
        self._problem = problem
        self._servers = settings.get("servers")
        self._operators = settings.get("operators", "none")
        self._statuses: list[str] = []

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Judge a completion; an episode ends when a kernel is correct or its turns are used up.

        Raises:
            InvalidVerdictError: the evaluator failed.
        """
        self.turns += 1
        grade = shared_grader(self._servers, operators=self._operators).grade(action, self._problem)
        self._statuses.append(grade.verdict.status)
        done = grade.verdict.correct or self.turns >= self.max_turns
        observations = [] if done else [{"role": "user", "content": grade.feedback}]
        return BaseTextEnvStepOutput(
            observations=observations, reward=grade.score, done=done, metadata={"verdict": grade.verdict.to_record()}
        )

    def get_metrics(self) -> dict[str, Any]:
        """Return whether the episode was solved, and in how many turns."""
        return {"correct": float("correct" in self._statuses), "turns": self.turns}
