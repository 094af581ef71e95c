"""Host executions by their names in a configuration."""

from collections.abc import Mapping
from typing import Final

from warpsmith.evaluator.config import RecordingWay
from warpsmith.evaluator.judge.host_execution.base import HostExecution
from warpsmith.evaluator.judge.host_execution.detached import DetachedExecution
from warpsmith.evaluator.judge.host_execution.on_device import OnDeviceExecution

HOST_EXECUTIONS: Final[Mapping[RecordingWay, type[HostExecution]]] = {
    execution.way: execution for execution in (DetachedExecution, OnDeviceExecution)
}
FALLBACK: Final = OnDeviceExecution
"""Records host code that the configured execution cannot record."""
