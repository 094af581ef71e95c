"""Algorithms as choices among the parts of the objective; a short file each. No torch here."""

from collections.abc import Mapping
from types import MappingProxyType

from warpsmith.trainer.algorithms.cispo import CISPO
from warpsmith.trainer.algorithms.dapo import DAPO
from warpsmith.trainer.algorithms.dr_grpo import DR_GRPO
from warpsmith.trainer.algorithms.grpo import GRPO
from warpsmith.trainer.algorithms.gspo import GSPO
from warpsmith.trainer.algorithms.ppo import PPO
from warpsmith.trainer.algorithms.preset import Preset
from warpsmith.trainer.algorithms.rloo import RLOO

PRESETS: Mapping[str, Preset] = MappingProxyType(
    {"grpo": GRPO, "dr_grpo": DR_GRPO, "dapo": DAPO, "gspo": GSPO, "cispo": CISPO, "rloo": RLOO, "ppo": PPO}
)

__all__ = ["PRESETS", "Preset"]
