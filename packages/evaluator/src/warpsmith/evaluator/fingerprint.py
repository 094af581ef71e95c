"""What affects verdicts besides problem, candidate and request: settings, and versions of the judging software.

Containment is not part of it, so that servers of several tiers can judge for one run; nor is the kind of device or its
driver, which a verdict names itself.
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
"""Header with the name of the conditions under which a server judges; every response has it."""

SIZING: Final = frozenset({"slots", "judges", "ready_workers", "reference_sessions", "start_timeout_s", "gpu", "nice"})
"""Settings that do not affect verdicts. Every other one does, including future ones."""
OF_THE_REQUEST: Final = frozenset({"trials", "timeout_s", "operators"})
"""Settings that a request can override."""
_CONTAINMENT: Final = frozenset({"cgroups", "minimum_isolation", "strongest_isolation"})


def conditions_of(config: EvaluatorConfig) -> Conditions:
    """Return the versions, and each setting that affects verdicts; JSON values by name."""
    return {**_versions(), **config.model_dump(mode="json", exclude=set(SIZING | OF_THE_REQUEST | _CONTAINMENT))}


def _versions() -> dict[str, str]:
    """Return the versions of the judging software, without local build labels (2.11.0 for 2.11.0+cu130)."""
    others = {name: version(name).partition("+")[0] for name in ("torch", "triton")}
    return {"version": __version__, **others}


def name_of(conditions: Conditions) -> str:
    """Return a name that only equal conditions share: 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(dict(conditions), sort_keys=True).encode()).hexdigest()


def differences(found: Conditions, expected: Conditions) -> str:
    """Return how `found` differs from `expected`, for a message; empty if it does not."""
    names = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
    return ", ".join(f"{name} is {found.get(name)!r} instead of {expected.get(name)!r}" for name in names)
