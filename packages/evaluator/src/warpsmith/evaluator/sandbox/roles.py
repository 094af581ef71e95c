"""Conventions shared by judge, zygotes and workers: which zygote forks which workers, and a worker's exit code."""

from typing import Final, Literal

from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.sandbox.policies import Role

ZygoteKind = Literal["plain", "interpreting"]
ROLES: Final[dict[str, dict[ZygoteKind, tuple[Role, ...]]]] = {
    "cpu": {"plain": ("reference", "compile", "host"), "interpreting": ("candidate",)},
    "cuda": {"plain": ("reference", "compile", "host", "candidate")},
}
"""Which zygote forks which workers, by device."""


def roles_of(config: EvaluatorConfig) -> dict[ZygoteKind, tuple[Role, ...]]:
    """Return which zygote forks which workers under this configuration."""
    if config.recording == "detached":
        return dict(ROLES[config.device])
    return {kind: tuple(role for role in roles if role != "host") for kind, roles in ROLES[config.device].items()}


EXHAUSTED_CODE: Final = 75
"""Exit code of a worker that ended because a resource of the machine ran out. From a candidate it is only a hint."""
