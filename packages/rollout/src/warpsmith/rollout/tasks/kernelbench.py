"""`kernelbench`: one turn, whose score is the reward."""

from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.tasks.base import Task

NAME = "kernelbench"
DESCRIPTION = "one turn; the score of the verdict is the reward"


def make(config: RolloutConfig) -> Task:
    """Return the task; turns and discount of the configuration have no effect."""
    return Task(NAME, DESCRIPTION, 1, 0.0, config.success_score, config.max_consecutive_failures)
