"""Disk space for the checkpoints and the final model of a run."""

from dataclasses import dataclass

from warpsmith.policy.config import DTypeName
from warpsmith.trainer.config.sections import CheckpointSection, ZeroSection

WIDTH = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Bytes per parameter."""
_FP32 = 4
_MOMENTS = 2 * _FP32


@dataclass(frozen=True)
class DiskNeed:
    """Disk space that a run may still need.

    Attributes:
        checkpoints: maximum number of additional checkpoints at one time.
        checkpoint: bytes of one checkpoint.
        model: bytes of the final model, 0 if none is exported.
    """

    checkpoints: int
    checkpoint: int
    model: int

    @property
    def total(self) -> int:
        """Total in bytes."""
        return self.checkpoints * self.checkpoint + self.model


def disk_need(
    section: CheckpointSection, zero: ZeroSection, dtype: DTypeName, *, trained: int, whole: int, there: int = 0
) -> DiskNeed:
    """Return what a run writes: the checkpoints that are kept, one more being written, and the final model.

    Args:
        section: how many checkpoints are kept.
        zero: how the state is partitioned.
        dtype: dtype of the weights.
        trained: Q, the parameters with a gradient.
        whole: P, all parameters.
        there: existing checkpoints, which make room for the new ones.
    """
    kept = section.keep + section.keep_best
    return DiskNeed(
        # Without a period, and with no best ones to keep, only the one at the end is written.
        checkpoints=max(kept - there, 0) + 1 if section.every or section.keep_best else 1,
        checkpoint=checkpoint_bytes(zero, dtype, trained),
        model=WIDTH[dtype] * whole if section.export_final else 0,
    )


def checkpoint_bytes(zero: ZeroSection, dtype: DTypeName, trained: int) -> int:
    """Return the bytes of one checkpoint.

    Adam's moments: 8 Q. fp32 master weights: 4 Q, and none under stage 0. Weights: b Q, and none under stage 3. Frozen
    weights under adapters are in no checkpoint.
    """
    master = 0 if zero.stage == 0 else _FP32
    weights = 0 if zero.stage == 3 else WIDTH[dtype]
    return trained * (_MOMENTS + master + weights)
