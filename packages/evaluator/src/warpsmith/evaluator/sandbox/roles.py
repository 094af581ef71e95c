"""Conventions shared by judge, zygotes and workers: which zygote forks which workers, and a worker's exit code."""

from typing import Final

from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.devices.kinds import Role, ZygoteKind


def roles_of(config: EvaluatorConfig) -> dict[ZygoteKind, tuple[Role, ...]]:
    """Return which zygote forks which workers under this configuration."""
    found = config.device_kind.roles
    unused = set() if config.recording == "detached" else {"host"}
    wanted = {kind: tuple(role for role in roles if role not in unused) for kind, roles in found.items()}
    if config.compiled_baselines:
        wanted["plain"] = (*wanted["plain"], "baseline")
    return wanted


EXHAUSTED_CODE: Final = 75
"""Exit code of a worker that ended because a resource of the machine ran out. From a candidate it is only a hint."""
