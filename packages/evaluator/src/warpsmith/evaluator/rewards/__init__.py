"""Verdicts as rewards: a completion and its problem give a verdict, a score and feedback.

    from warpsmith.evaluator.rewards import open_grader, shared_grader

    with open_grader() as grader:                     # judges here; open_grader("http://host:18188") asks a server
        grades = grader.grade_batch(completions, problems)
        scores = [grade.score for grade in grades]    # None where the evaluator failed: no sample, never a 0

Adapters for training and evaluation frameworks are in `warpsmith.evaluator.integrations`. Importable without torch.
"""

from warpsmith.evaluator.rewards.grader import Grade, Grader, GradingRules, OnInvalid, grade, grade_async, grade_batch
from warpsmith.evaluator.rewards.opening import open_grader, shared_grader
from warpsmith.evaluator.rewards.score import BadScoreError, InvalidVerdictError, Score, SpeedScore

__all__ = [
    "BadScoreError",
    "Grade",
    "Grader",
    "GradingRules",
    "InvalidVerdictError",
    "OnInvalid",
    "Score",
    "SpeedScore",
    "grade",
    "grade_async",
    "grade_batch",
    "open_grader",
    "shared_grader",
]
