"""Names by which vLLM finds the receiver of streams; importable without it."""

BACKEND = "warpsmith_stream"
"""The backend's name in vLLM's `WeightTransferConfig`."""

WORKER_EXTENSION = "warpsmith.rollout.samplers.weights.stream.receiver.StreamWorker"
"""Adds methods to vLLM's workers, and registers the backend when it is imported."""
