"""Opens the trackers that a run's configuration names."""

import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

from warpsmith.records.wording import installing
from warpsmith.trainer.config.sections import RunSection, TrackersSection, WandbSection
from warpsmith.trainer.errors import TrackerError
from warpsmith.trainer.telemetry.trackers.base import Tracker, Trackers
from warpsmith.trainer.telemetry.trackers.mlflow import MLflow
from warpsmith.trainer.telemetry.trackers.tensorboard import TensorBoard
from warpsmith.trainer.telemetry.trackers.trackio import Trackio
from warpsmith.trainer.telemetry.trackers.weights_and_biases import WeightsAndBiases, start_wandb


def open_trackers(
    run: RunSection, wandb: WandbSection, section: TrackersSection, config: Mapping[str, Any]
) -> Trackers:
    """Return the trackers of a run.

    Args:
        run: directory and title.
        wandb: settings of Weights & Biases.
        section: the other trackers.
        config: the run's settings, which trackers show.

    Raises:
        WandbError, TrackerError: one cannot start, or its package is missing.
    """
    openings: list[tuple[str, Callable[[], Tracker]]] = []
    if section.tensorboard:
        openings.append(("tensorboard", lambda: TensorBoard(run.dir)))
    if section.mlflow:
        openings.append(("mlflow", lambda: MLflow(run.dir, run.title, section.mlflow, config)))
    if section.trackio:
        openings.append(("trackio", lambda: Trackio(section.trackio, run.title, config)))
    found = [_opened(name, opening) for name, opening in openings]
    started = start_wandb(run, wandb, config)
    return Trackers([*([WeightsAndBiases(started)] if started is not None else []), *found])


def _opened(name: str, opening: Callable[[], Tracker]) -> Tracker:
    """Open one tracker. The extra, the package and the key have one name."""
    if importlib.util.find_spec(name) is None:
        raise TrackerError(
            f"trackers.{name} is set, and the package {name} is not installed.",
            f"{installing('trainer', name)} Or unset trackers.{name}.",
        )
    try:
        return opening()
    except Exception as error:  # A start that fails is reported at once, whatever a tracker raises.
        raise TrackerError(
            f"The tracker {name} cannot start: {type(error).__name__}: {error}.", f"Fix that, or unset trackers.{name}."
        ) from error
