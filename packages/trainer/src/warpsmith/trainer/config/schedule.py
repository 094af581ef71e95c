"""`[optimizer.schedule]`: the learning rate after the warm-up."""

import math
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from warpsmith.trainer.section import Section, one_of


class ConstantSchedule(Section):
    """The learning rate stays at its peak."""

    type: Literal["constant"] = "constant"

    def share(self, update: int, updates: int, begin: int) -> float:
        """Return the share of the peak at `update`.

        Args:
            update: from 0, at least `begin`.
            updates: of the whole run.
            begin: the first update after the warm-up.
        """
        return 1.0


class _Falling(Section):
    min_lr_ratio: float = Field(default=0.0, ge=0, le=1, description="Share of the peak at which it ends.")

    def _between(self, fall: float) -> float:
        return self.min_lr_ratio + (1.0 - self.min_lr_ratio) * fall


class LinearSchedule(_Falling):
    """It falls linearly."""

    type: Literal["linear"] = "linear"

    def share(self, update: int, updates: int, begin: int) -> float:
        """See `ConstantSchedule.share`."""
        return self._between(1.0 - _progress(update, updates, begin))


class CosineSchedule(_Falling):
    """It falls along half a cosine (arXiv 1608.03983)."""

    type: Literal["cosine"] = "cosine"

    def share(self, update: int, updates: int, begin: int) -> float:
        """See `ConstantSchedule.share`."""
        return self._between(0.5 * (1.0 + math.cos(math.pi * _progress(update, updates, begin))))


class WsdSchedule(_Falling):
    """It is constant, then falls linearly over the last updates (arXiv 2404.06395)."""

    type: Literal["wsd"] = "wsd"
    decay_ratio: float = Field(
        default=0.1, gt=0, le=1, description="Share of all updates over which the learning rate falls."
    )

    def share(self, update: int, updates: int, begin: int) -> float:
        """See `ConstantSchedule.share`."""
        begin = max(begin, updates - math.ceil(self.decay_ratio * updates) - 1)
        return self._between(1.0 - _progress(update, updates, begin))


def _progress(update: int, updates: int, begin: int) -> float:
    return min(1.0, max(0.0, update - begin) / max(1, updates - begin - 1))


Schedule = ConstantSchedule | LinearSchedule | CosineSchedule | WsdSchedule
if TYPE_CHECKING:
    GrpoSchedule = Schedule
    SftSchedule = Schedule
else:
    _SCHEDULES = (ConstantSchedule, CosineSchedule, LinearSchedule, WsdSchedule)
    GrpoSchedule = one_of(*_SCHEDULES, default="constant")
    SftSchedule = one_of(*_SCHEDULES, default="cosine")
