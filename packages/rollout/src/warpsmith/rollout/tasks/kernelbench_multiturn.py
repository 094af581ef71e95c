"""`kernelbench_multiturn`: several turns with feedback, discounted returns."""

from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.tasks.base import Task

NAME = "kernelbench_multiturn"
DESCRIPTION = "several turns, each told the verdict on the one before; discounted returns"


def make(config: RolloutConfig) -> Task:
    """Return the task with the configuration's turns, discount and end conditions."""
    return Task(
        NAME, DESCRIPTION, config.max_turns, config.gamma, config.success_score, config.max_consecutive_failures
    )
