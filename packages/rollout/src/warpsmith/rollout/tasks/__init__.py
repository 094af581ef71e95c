"""Tasks by `task_type`: what a turn is asked, how many turns there are, and what the turns are worth together."""

from warpsmith.rollout.tasks.base import Task
from warpsmith.rollout.tasks.registry import known_tasks, task_for

__all__ = ["Task", "known_tasks", "task_for"]
