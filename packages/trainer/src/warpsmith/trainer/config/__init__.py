"""Configuration of SFT and GRPO runs: TOML files read into pydantic models. Importable without torch."""

from warpsmith.trainer.config.grpo import AlgorithmSection, GrpoRunSection, HeldOutSection, SyncSection, TrainerConfig
from warpsmith.trainer.config.health import HealthSection
from warpsmith.trainer.config.load import load_any, load_grpo, load_sft, read_toml
from warpsmith.trainer.config.placement import PlacementSection
from warpsmith.trainer.config.sections import (
    CheckpointSection,
    OptimizerSection,
    RunSection,
    Section,
    WandbSection,
    ZeroSection,
)
from warpsmith.trainer.config.sft import SftConfig, SftDataSection, SftRunSection

__all__ = [
    "AlgorithmSection",
    "CheckpointSection",
    "GrpoRunSection",
    "HealthSection",
    "HeldOutSection",
    "OptimizerSection",
    "PlacementSection",
    "RunSection",
    "Section",
    "SftConfig",
    "SftDataSection",
    "SftRunSection",
    "SyncSection",
    "TrainerConfig",
    "WandbSection",
    "ZeroSection",
    "load_any",
    "load_grpo",
    "load_sft",
    "read_toml",
]
