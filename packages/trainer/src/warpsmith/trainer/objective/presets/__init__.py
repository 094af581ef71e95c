"""Algorithms as choices among the parts of the objective; a short file each. No torch here."""

from collections.abc import Mapping
from types import MappingProxyType

from warpsmith.trainer.objective.presets.cispo import CISPO
from warpsmith.trainer.objective.presets.dapo import DAPO
from warpsmith.trainer.objective.presets.dr_grpo import DR_GRPO
from warpsmith.trainer.objective.presets.grpo import GRPO
from warpsmith.trainer.objective.presets.gspo import GSPO
from warpsmith.trainer.objective.presets.ppo import PPO
from warpsmith.trainer.objective.presets.preset import Preset
from warpsmith.trainer.objective.presets.rloo import RLOO

PRESETS: Mapping[str, Preset] = MappingProxyType(
    {"grpo": GRPO, "dr_grpo": DR_GRPO, "dapo": DAPO, "gspo": GSPO, "cispo": CISPO, "rloo": RLOO, "ppo": PPO}
)

__all__ = ["PRESETS", "Preset"]
