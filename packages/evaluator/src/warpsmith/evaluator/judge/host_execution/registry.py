"""The ways to execute host code, by their names in a configuration."""

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
"""Takes the host code that another way cannot record."""
