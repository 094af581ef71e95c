"""Cached verdicts, by a hash of everything that determines them."""

import hashlib
import json
import re
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from warpsmith.evaluator._version import __version__
from warpsmith.evaluator.baselines import BaselineName
from warpsmith.evaluator.client.evaluator import DeviceFacts
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.fingerprint import SIZING
from warpsmith.evaluator.recordings.library_policy import OperatorPolicy
from warpsmith.evaluator.verdict import Verdict

DRIVER: Final = Path("/proc/driver/nvidia/version")
_NEVER: Final = frozenset({"invalid", "timeout"})
_OF_THE_MOMENT: Final = frozenset({"timeout", "out_of_memory"})
_DISTURBED: Final = frozenset({"retried", "clocks_disagree"})


@dataclass(frozen=True)
class VerdictInputs:
    """The parts of a request that determine its verdict."""

    problem: str
    candidate: str
    trials: int
    seed: int | None
    timeout_s: float
    operators: OperatorPolicy
    baseline: tuple[BaselineName, ...]


@dataclass(frozen=True)
class _Entry:
    verdict: Verdict
    since: float


class VerdictCache:
    """Caches the last `capacity` verdicts that are reproducible. For one event loop.

    A verdict is cached unless the state of the machine may have caused it: `invalid`, `timeout`, out of memory, judged
    again alone, or two clocks that disagreed. A cached time is that of the first run.

    Args:
        capacity: most verdicts, the least recently used is evicted; 0 caches none.
        config: the evaluators' settings.
    """

    def __init__(self, capacity: int, config: EvaluatorConfig) -> None:
        self.capacity = capacity
        self._settings = settings_of(config)
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, inputs: VerdictInputs, devices: Sequence[DeviceFacts]) -> Verdict | None:
        """Return the verdict of one of these devices, with `cached` and its age set and no time spent, or None."""
        for device in devices:
            key = self._key(inputs, device)
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
                return _aged(entry)
        return None

    def put(self, inputs: VerdictInputs, device: DeviceFacts, verdict: Verdict) -> None:
        """Cache a verdict if it is reproducible."""
        if not self.capacity or not is_lasting(verdict):
            return
        key = self._key(inputs, device)
        self._entries[key] = _Entry(verdict, time.monotonic())
        self._entries.move_to_end(key)
        while len(self._entries) > self.capacity:
            self._entries.popitem(last=False)

    def _key(self, inputs: VerdictInputs, device: DeviceFacts) -> bytes:
        parts = [*astuple(inputs), *device]
        return hashlib.sha256(json.dumps([*parts, self._settings]).encode()).digest()


def settings_of(config: EvaluatorConfig) -> dict[str, Any]:
    """Return what determines a verdict besides the request: settings, and versions of the judging software."""
    return {
        "config": config.model_dump(mode="json", exclude={*SIZING, "trials"}),
        "versions": [__version__, version("torch"), version("triton"), driver_version()],
    }


def driver_version(path: Path = DRIVER) -> str:
    """Return the version of NVIDIA's kernel module, or an empty string without one."""
    try:
        found = re.search(r"\b\d+\.\d+(\.\d+)?\b", path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ""
    return found[0] if found else ""


def is_lasting(verdict: Verdict) -> bool:
    """Whether the same request would end the same way again, however busy the machine is."""
    return (
        verdict.status not in _NEVER
        and verdict.error_category not in _OF_THE_MOMENT
        and not _DISTURBED.intersection(verdict.flags)
    )


def _aged(entry: _Entry) -> Verdict:
    spent = replace(type(entry.verdict.seconds)(), age=time.monotonic() - entry.since)
    return replace(entry.verdict, cached=True, seconds=spent)
