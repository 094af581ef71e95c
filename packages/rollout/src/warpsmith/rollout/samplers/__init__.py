"""Samplers behind one small interface. Imports no vllm, ray or torch before a sampler is started."""

from warpsmith.rollout.samplers.base import Completion, Sampler, Sampling
from warpsmith.rollout.samplers.weights.payload import Adapter, TensorEntry, WeightPayload

__all__ = ["Adapter", "Completion", "Sampler", "Sampling", "TensorEntry", "WeightPayload"]
