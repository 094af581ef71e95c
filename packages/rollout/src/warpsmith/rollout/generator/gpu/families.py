"""Families of problems of GPU size, by level."""

import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from warpsmith.rollout.generator.gpu.moves import gather, scan, transpose
from warpsmith.rollout.generator.gpu.pointwise import binary, broadcast, elementwise, epilogue
from warpsmith.rollout.generator.gpu.products import batched_matmul, matmul
from warpsmith.rollout.generator.gpu.rows import logsumexp, norm, reduction, softmax
from warpsmith.rollout.generator.gpu.sizes import Budget
from warpsmith.rollout.generator.gpu.solutions import GpuDraft

GpuFamily = Callable[[random.Random, Budget], GpuDraft]

GPU_LEVELS: Final[Mapping[int, tuple[GpuFamily, ...]]] = MappingProxyType(
    {
        1: (elementwise, elementwise, binary, epilogue),
        2: (broadcast, reduction, reduction, logsumexp, gather, transpose),
        3: (softmax, norm, scan, matmul, batched_matmul),
    }
)
"""Families by level of difficulty; a family that is listed twice is drawn twice as often."""
