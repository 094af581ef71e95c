"""Judges hostile, model-written GPU kernels in contained workers, and returns a verdict that they cannot forge.

    from pathlib import Path
    from warpsmith.evaluator import evaluate

    verdict = evaluate(Path("19_ReLU.py"), Path("relu.py"))
    print(verdict.status, verdict.speedup, verdict.error_message)

Names are imported at their first use: reading a configuration needs neither torch nor the compiled extension.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from warpsmith.evaluator._version import __version__

if TYPE_CHECKING:
    from warpsmith.evaluator.client.evaluator import Evaluator, evaluate
    from warpsmith.evaluator.client.interface import AsyncEvaluator, SyncEvaluator
    from warpsmith.evaluator.client.remote import (
        Client,
        OtherConditionsError,
        ServerError,
        ServerRefusedError,
        ServerUnreachableError,
    )
    from warpsmith.evaluator.config import EvaluatorConfig
    from warpsmith.evaluator.errors import (
        BadProblemError,
        DatasetError,
        DeviceQuarantinedError,
        EvaluatorError,
        IsolationUnavailableError,
        JudgeUnavailableError,
        LayoutError,
        WireError,
    )
    from warpsmith.evaluator.languages.cuda_cpp.toolkit import ToolkitError
    from warpsmith.evaluator.languages.triton.amd_check import UnknownTargetError
    from warpsmith.evaluator.problem import Problem
    from warpsmith.evaluator.rewards.score import BadScoreError, InvalidVerdictError
    from warpsmith.evaluator.system.host_compiler import NoHostCompilerError
    from warpsmith.evaluator.traces.files import TraceFormatError
    from warpsmith.evaluator.verdict import ERROR_CATEGORIES, FLAGS, STATUSES, Seconds, Verdict
    from warpsmith.records.errors import UsageError, WarpsmithError

_HOMES: Final = {
    "warpsmith.evaluator.client.evaluator": ("Evaluator", "evaluate"),
    "warpsmith.evaluator.client.interface": ("AsyncEvaluator", "SyncEvaluator"),
    "warpsmith.evaluator.config": ("EvaluatorConfig",),
    "warpsmith.evaluator.errors": (
        "BadProblemError",
        "DatasetError",
        "DeviceQuarantinedError",
        "EvaluatorError",
        "IsolationUnavailableError",
        "JudgeUnavailableError",
        "LayoutError",
        "WireError",
    ),
    "warpsmith.evaluator.languages.cuda_cpp.toolkit": ("ToolkitError",),
    "warpsmith.evaluator.languages.triton.amd_check": ("UnknownTargetError",),
    "warpsmith.evaluator.system.host_compiler": ("NoHostCompilerError",),
    "warpsmith.evaluator.problem": ("Problem",),
    "warpsmith.evaluator.client.remote": (
        "Client",
        "OtherConditionsError",
        "ServerError",
        "ServerRefusedError",
        "ServerUnreachableError",
    ),
    "warpsmith.evaluator.rewards.score": ("BadScoreError", "InvalidVerdictError"),
    "warpsmith.evaluator.traces.files": ("TraceFormatError",),
    "warpsmith.evaluator.verdict": ("ERROR_CATEGORIES", "FLAGS", "STATUSES", "Seconds", "Verdict"),
    "warpsmith.records.errors": ("UsageError", "WarpsmithError"),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ERROR_CATEGORIES",
    "FLAGS",
    "STATUSES",
    "AsyncEvaluator",
    "BadProblemError",
    "BadScoreError",
    "Client",
    "DatasetError",
    "DeviceQuarantinedError",
    "Evaluator",
    "EvaluatorConfig",
    "EvaluatorError",
    "InvalidVerdictError",
    "IsolationUnavailableError",
    "JudgeUnavailableError",
    "LayoutError",
    "NoHostCompilerError",
    "OtherConditionsError",
    "Problem",
    "Seconds",
    "ServerError",
    "ServerRefusedError",
    "ServerUnreachableError",
    "SyncEvaluator",
    "ToolkitError",
    "TraceFormatError",
    "UnknownTargetError",
    "UsageError",
    "Verdict",
    "WarpsmithError",
    "WireError",
    "__version__",
    "evaluate",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its home (PEP 562)."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
