"""Configuration of SFT and GRPO runs: TOML files read into pydantic models. Importable without torch."""

from warpsmith.trainer.config.algorithm import AlgorithmSection
from warpsmith.trainer.config.grpo import GrpoRunSection, HeldOutSection, SyncSection, TrainerConfig
from warpsmith.trainer.config.health import HealthSection
from warpsmith.trainer.config.load import load_any, load_grpo, load_sft, read_toml
from warpsmith.trainer.config.placement import PlacementSection
from warpsmith.trainer.config.problems import GeneratedProblems, ProblemFiles
from warpsmith.trainer.config.sections import (
    CheckpointSection,
    OptimizerSection,
    RunSection,
    TrackersSection,
    WandbSection,
    ZeroSection,
)
from warpsmith.trainer.config.sft import SftConfig, SftDataSection, SftRunSection
from warpsmith.trainer.config.sources import ChatsSource, GeneratedSource, KernelbookSource, RecordsSource
from warpsmith.trainer.section import Section

__all__ = [
    "AlgorithmSection",
    "ChatsSource",
    "CheckpointSection",
    "GeneratedProblems",
    "GeneratedSource",
    "GrpoRunSection",
    "HealthSection",
    "HeldOutSection",
    "KernelbookSource",
    "OptimizerSection",
    "PlacementSection",
    "ProblemFiles",
    "RecordsSource",
    "RunSection",
    "Section",
    "SftConfig",
    "SftDataSection",
    "SftRunSection",
    "SyncSection",
    "TrackersSection",
    "TrainerConfig",
    "WandbSection",
    "ZeroSection",
    "load_any",
    "load_grpo",
    "load_sft",
    "read_toml",
]
