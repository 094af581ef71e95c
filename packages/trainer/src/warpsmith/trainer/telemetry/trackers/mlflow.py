"""MLflow: a run on a tracking server, or in a local database."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

_IDENTITY: Final = "mlflow-id.txt"
EXPERIMENT: Final = "warpsmith"
_LONGEST_PARAMETER: Final = 500


class MLflow:
    """A run of MLflow, the same over all starts of a training run.

    Args:
        run_dir: the run's directory, which keeps the id.
        title: the run's name.
        uri: the tracking server, or `sqlite:///FILE`.
        config: the run's settings, logged as parameters.
    """

    name = "MLflow"

    def __init__(self, run_dir: Path, title: str, uri: str, config: Mapping[str, Any]) -> None:
        from mlflow import MlflowClient

        self._client = MlflowClient(tracking_uri=uri)
        self._run = self._resumed(run_dir / _IDENTITY) or self._started(run_dir / _IDENTITY, title, config)

    def _resumed(self, identity: Path) -> str | None:
        """Return the id of the run that an earlier start began."""
        if not identity.is_file():
            return None
        run = identity.read_text(encoding="utf-8").strip()
        self._client.update_run(run, status="RUNNING")
        return run

    def _started(self, identity: Path, title: str, config: Mapping[str, Any]) -> str:
        from mlflow.entities import Param

        experiment = self._client.get_experiment_by_name(EXPERIMENT)
        number = experiment.experiment_id if experiment else self._client.create_experiment(EXPERIMENT)
        run: str = self._client.create_run(number, run_name=title).info.run_id
        parameters = [Param(name, text[:_LONGEST_PARAMETER]) for name, text in flat(config).items()]
        for begin in range(0, len(parameters), 100):
            self._client.log_batch(run, params=parameters[begin : begin + 100])
        identity.write_text(run, encoding="utf-8")
        return run

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Log a step."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self._client.log_batch(self._run, metrics=[Metric(name, value, now, step) for name, value in figures.items()])

    def warn(self, title: str, text: str) -> None:
        """Keep the last warning as a tag."""
        self._client.set_tag(self._run, "warning", f"{title}: {text}")

    def close(self, code: int) -> None:
        """Say how the run ended."""
        self._client.set_terminated(self._run, "FINISHED" if code == 0 else "FAILED")


def flat(config: Mapping[str, Any], above: str = "") -> dict[str, str]:
    """Return the settings by their dotted keys, as text."""
    found: dict[str, str] = {}
    for key, value in config.items():
        name = f"{above}{key}"
        found |= flat(value, f"{name}.") if isinstance(value, Mapping) else {name: str(value)}
    return found
