"""Judges hostile, model-written GPU kernels in contained workers, and returns a verdict that they cannot forge."""

from warpsmith.evaluator._version import __version__
from warpsmith.evaluator.client import Evaluator, evaluate
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.errors import (
    BadProblemError,
    DeviceQuarantinedError,
    EvaluatorError,
    IsolationUnavailableError,
    JudgeUnavailableError,
)
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.remote import (
    Client,
    OtherConditionsError,
    ServerError,
    ServerRefusedError,
    ServerUnreachableError,
)
from warpsmith.evaluator.verdict import Seconds, Verdict

__all__ = [
    "BadProblemError",
    "Client",
    "DeviceQuarantinedError",
    "Evaluator",
    "EvaluatorConfig",
    "EvaluatorError",
    "IsolationUnavailableError",
    "JudgeUnavailableError",
    "OtherConditionsError",
    "Problem",
    "Seconds",
    "ServerError",
    "ServerRefusedError",
    "ServerUnreachableError",
    "Verdict",
    "__version__",
    "evaluate",
]
