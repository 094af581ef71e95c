"""Settings of the value head, for estimators that train one."""

from typing import ClassVar, Literal

from pydantic import Field

from warpsmith.trainer.advantage.estimators.base import Estimator


class ValueEstimator(Estimator):
    """An estimator that compares turns with a value head instead of with other samples."""

    has_value_head: ClassVar[bool] = True
    value_coefficient: float = Field(default=0.1, ge=0, description="Weight of the value head's loss.")
    value_clip: float | None = Field(
        default=None, gt=0, description="Maximum change of a value in one batch; unset clips nothing."
    )
    value_lr: float = Field(
        default=1e-3, ge=0, description="Peak learning rate of the value head; its schedule is that of [optimizer]."
    )
    value_trains: Literal["policy", "head"] = Field(
        default="policy", description="Whether the value loss trains the whole `policy`, or only the `head`."
    )
