"""What verdicts hang on beside problem, candidate and what a request says: the same conditions, the same verdict.

Two evaluators of equal conditions may still time on different devices; a verdict names its own.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from warpsmith.evaluator._version import __version__
from warpsmith.evaluator.config import EvaluatorConfig

Conditions = Mapping[str, Any]

HEADER: Final = "X-Warpsmith-Conditions"
"""Carries the name of the conditions under which a server reached the verdict that it answers with."""

OF_THE_REQUEST: Final = frozenset({"trials", "timeout_s"})
"""Settings that whoever asks may give."""
_OF_THE_MACHINE: Final = frozenset(
    {
        *("slots", "ready_workers", "reference_sessions", "start_timeout_s", "gpu", "cgroups"),
        *("minimum_isolation", "strongest_isolation"),
    }
)
"""Settings that change how fast or how well contained candidates are judged, and not what is found."""


def conditions_of(config: EvaluatorConfig) -> Conditions:
    """Return the evaluator's version and each setting that changes what is found; JSON values by name."""
    return {"version": __version__, **config.model_dump(mode="json", exclude=set(_OF_THE_MACHINE | OF_THE_REQUEST))}


def name_of(conditions: Conditions) -> str:
    """Return a name that equal conditions share and others do not: 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(dict(conditions), sort_keys=True).encode()).hexdigest()


def differences(found: Conditions, expected: Conditions) -> str:
    """Return what of `found` is not as `expected`, for a message; empty where nothing is."""
    names = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
    return ", ".join(f"{name} is {found.get(name)!r} and not {expected.get(name)!r}" for name in names)
