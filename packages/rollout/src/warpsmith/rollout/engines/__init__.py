"""Samplers behind one small interface. Nothing here imports vllm, ray or torch before an engine is started."""

from warpsmith.rollout.engines.base import Completion, Engine, Sampling
from warpsmith.rollout.engines.weights import Adapter, TensorEntry, WeightPayload

__all__ = ["Adapter", "Completion", "Engine", "Sampling", "TensorEntry", "WeightPayload"]
