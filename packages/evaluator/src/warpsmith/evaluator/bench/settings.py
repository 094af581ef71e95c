"""The settings that affect verdicts: part of the key under which a recorded verdict is found again."""

import json
from collections.abc import Mapping
from typing import Any

from warpsmith.evaluator.bench.generations import Generation, digest
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.fingerprint import OF_THE_REQUEST, Conditions, conditions_of
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.recordings.library_policy import OperatorPolicy

Settings = Mapping[str, Any]


def local_settings(config: EvaluatorConfig) -> Settings:
    """Return the settings of an evaluator on this machine."""
    of_request = config.model_dump(mode="json", include=set(OF_THE_REQUEST))
    return {"judge": "local", **conditions_of(config), **of_request}


def server_settings(conditions: Conditions, trials: int, timeout_s: float, operators: OperatorPolicy) -> Settings:
    """Return the servers' conditions and our options. Their addresses do not count, so that servers can be added."""
    return {"judge": "servers", **conditions, "trials": trials, "timeout_s": timeout_s, "operators": operators}


def key_of(problem: Problem, generation: Generation, settings: Settings) -> str:
    """Return the key of a verdict: a hash of the problem's source, the candidate's source and the settings."""
    parts = {"problem": problem.key, "candidate": generation.digest, "settings": dict(settings)}
    return digest(json.dumps(parts, sort_keys=True))
