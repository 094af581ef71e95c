"""How a run is judged, as far as verdicts hang on it: the part of the key under which a verdict is known again."""

import json
from collections.abc import Mapping
from typing import Any

from warpsmith.evaluator.bench.generations import Generation, digest
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.fingerprint import OF_THE_REQUEST, Conditions, conditions_of
from warpsmith.evaluator.problem import Problem

Settings = Mapping[str, Any]


def local_settings(config: EvaluatorConfig) -> Settings:
    """Return the settings of an evaluator on this machine."""
    asked = config.model_dump(mode="json", include=set(OF_THE_REQUEST))
    return {"judge": "local", **conditions_of(config), **asked}


def server_settings(conditions: Conditions, trials: int, timeout_s: float) -> Settings:
    """Return the servers' conditions and what they are told. Which servers they are does not count: more may help."""
    return {"judge": "servers", **conditions, "trials": trials, "timeout_s": timeout_s}


def key_of(problem: Problem, generation: Generation, settings: Settings) -> str:
    """Return what names a verdict: the problem's source, the candidate's source and the settings."""
    told = {"problem": problem.key, "candidate": generation.digest, "settings": dict(settings)}
    return digest(json.dumps(told, sort_keys=True))
