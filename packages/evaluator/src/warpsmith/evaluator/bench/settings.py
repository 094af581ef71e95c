"""How a run is judged, as far as verdicts hang on it: the part of the key under which a verdict is known again."""

import json
from collections.abc import Mapping
from typing import Any, Final

from warpsmith.evaluator._version import __version__
from warpsmith.evaluator.bench.generations import Generation, digest
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.problem import Problem

Settings = Mapping[str, Any]

_OF_THE_MACHINE: Final = frozenset(
    {
        *("slots", "ready_workers", "reference_sessions", "start_timeout_s", "gpu", "cgroups"),
        *("minimum_isolation", "strongest_isolation"),
    }
)
"""Settings that change how fast or how well contained candidates are judged, and not what is found."""


def local_settings(config: EvaluatorConfig) -> Settings:
    """Return the settings of an evaluator on this machine."""
    found = config.model_dump(mode="json", exclude=set(_OF_THE_MACHINE))
    return {"judge": "local", "version": __version__, **found}


def server_settings(trials: int, timeout_s: float) -> Settings:
    """Return what servers are told. Which servers they are does not count: more may help on the next day."""
    return {"judge": "servers", "version": __version__, "trials": trials, "timeout_s": timeout_s}


def key_of(problem: Problem, generation: Generation, settings: Settings) -> str:
    """Return what names a verdict: the problem's source, the candidate's source and the settings."""
    told = {"problem": problem.key, "candidate": generation.digest, "settings": dict(settings)}
    return digest(json.dumps(told, sort_keys=True))
