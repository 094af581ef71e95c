"""Samplers behind one small interface. Nothing here imports vllm, ray or torch before an engine is started."""

from warpsmith.rollout.engines.base import Completion, Engine, Sampling
from warpsmith.rollout.engines.weights import TensorEntry, WeightPayload

__all__ = ["Completion", "Engine", "Sampling", "TensorEntry", "WeightPayload"]
