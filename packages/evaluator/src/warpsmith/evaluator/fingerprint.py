"""What verdicts hang on beside problem, candidate and what a request says: settings, and versions of what judges.

How well candidates are contained is no part of it, so that servers of several tiers may judge for one run; nor is the
kind of device, which a verdict names itself, and its driver.
"""

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Final

from warpsmith.evaluator._version import __version__
from warpsmith.evaluator.config import EvaluatorConfig

Conditions = Mapping[str, Any]

HEADER: Final = "X-Warpsmith-Conditions"
"""Carries the name of the conditions under which a server judges; every answer of a server has it."""

SIZING: Final = frozenset({"slots", "ready_workers", "reference_sessions", "start_timeout_s", "gpu", "nice"})
"""Settings that change no verdict. Every other one counts, also one that is added later."""
OF_THE_REQUEST: Final = frozenset({"trials", "timeout_s"})
"""Settings that whoever asks may give."""
_CONTAINMENT: Final = frozenset({"cgroups", "minimum_isolation", "strongest_isolation"})


def conditions_of(config: EvaluatorConfig) -> Conditions:
    """Return the versions, and each setting that changes what is found; JSON values by name."""
    return {**_versions(), **config.model_dump(mode="json", exclude=set(SIZING | OF_THE_REQUEST | _CONTAINMENT))}


def _versions() -> dict[str, str]:
    """Return the versions of what judges, without the marks of their builds (2.11.0 for 2.11.0+cu130)."""
    others = {name: version(name).partition("+")[0] for name in ("torch", "triton")}
    return {"version": __version__, **others}


def name_of(conditions: Conditions) -> str:
    """Return a name that equal conditions share and others do not: 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(dict(conditions), sort_keys=True).encode()).hexdigest()


def differences(found: Conditions, expected: Conditions) -> str:
    """Return what of `found` is not as `expected`, for a message; empty where nothing is."""
    names = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
    return ", ".join(f"{name} is {found.get(name)!r} and not {expected.get(name)!r}" for name in names)
