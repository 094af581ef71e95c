"""The module that verifiers imports for the taskset `warpsmith-kernels`."""

from warpsmith.evaluator.integrations.verifiers import KernelTaskset

__all__ = ["KernelTaskset"]
