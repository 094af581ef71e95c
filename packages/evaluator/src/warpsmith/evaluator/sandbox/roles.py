"""What judge, zygotes and workers agree on: which zygote forks which workers, and how a worker ends."""

from typing import Final

from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.devices.kinds import Role, ZygoteKind


def roles_of(config: EvaluatorConfig) -> dict[ZygoteKind, tuple[Role, ...]]:
    """Return which zygote forks which workers under this configuration."""
    found = config.device_kind.roles
    if config.recording == "detached":
        return dict(found)
    return {kind: tuple(role for role in roles if role != "host") for kind, roles in found.items()}


EXHAUSTED_CODE: Final = 75
"""Exit code of a worker that ended for want of what the machine had no more of. Of a candidate's, it is a hint."""
