"""What other packages can add to rollouts, by entry point. Importable without the registered parts.

The comment above each registry names the interface of its parts; docs/extending.md has a recipe for each.
"""

from typing import TYPE_CHECKING, Annotated, Any, Final

from warpsmith.records.choices import Choices
from warpsmith.records.registry import Registry

if TYPE_CHECKING:
    from warpsmith.rollout.bench.strategies.base import StrategyType
    from warpsmith.rollout.environments.base import EnvironmentType
    from warpsmith.rollout.rewards.base import RewardType
    from warpsmith.rollout.samplers.base import SamplerType
    from warpsmith.rollout.samplers.weights.transports.base import TransportType


def _callable(part: Any) -> str:
    return "" if callable(part) else "is not callable"


def _environment(part: Any) -> str:
    missing = [name for name in ("description", "max_turns") if not hasattr(part, name)]
    return f"has no `{missing[0]}`" if missing else _callable(part)


# samplers.base.SamplerType
SAMPLERS: "Final[Registry[SamplerType]]" = Registry("warpsmith.samplers", "sampler", _callable)
# samplers.weights.transports.base.TransportType
TRANSPORTS: "Final[Registry[TransportType]]" = Registry("warpsmith.transports", "weight transport", _callable)
# rewards.base.RewardType
REWARDS: "Final[Registry[RewardType]]" = Registry("warpsmith.rewards", "reward", _callable)
# environments.base.EnvironmentType
ENVIRONMENTS: "Final[Registry[EnvironmentType]]" = Registry("warpsmith.environments", "environment", _environment)
# bench.strategies.base.StrategyType
STRATEGIES: "Final[Registry[StrategyType]]" = Registry("warpsmith.strategies", "search strategy", _callable)


SamplerName = Annotated[str, Choices(SAMPLERS)]
TransportName = Annotated[str, Choices(TRANSPORTS)]
RewardName = Annotated[str, Choices(REWARDS)]
EnvironmentName = Annotated[str, Choices(ENVIRONMENTS)]
StrategyName = Annotated[str, Choices(STRATEGIES)]
