"""Verdicts that were reached before, by the content of everything that decides them."""

import hashlib
import json
import re
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from warpsmith.evaluator._version import __version__
from warpsmith.evaluator.client.evaluator import DeviceFacts
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.fingerprint import SIZING
from warpsmith.evaluator.verdict import Verdict

DRIVER: Final = Path("/proc/driver/nvidia/version")
_NEVER: Final = frozenset({"invalid", "timeout"})
_OF_THE_MOMENT: Final = frozenset({"timeout", "out_of_memory"})
_DISTURBED: Final = frozenset({"retried", "clocks_disagree"})


@dataclass(frozen=True)
class Asked:
    """What of a request decides its verdict."""

    problem: str
    candidate: str
    trials: int
    seed: int | None
    timeout_s: float


@dataclass(frozen=True)
class _Kept:
    verdict: Verdict
    since: float


class VerdictCache:
    """Keeps the last `capacity` verdicts that would be the same again. For one event loop.

    A verdict is kept unless the state of the machine may have decided it: `invalid`, `timeout`, out of memory, tried
    again alone, or two clocks that disagreed. A kept time is that of the first run.

    Args:
        capacity: verdicts kept, the one unused for longest goes first; 0 keeps none.
        config: the evaluators' settings.
    """

    def __init__(self, capacity: int, config: EvaluatorConfig) -> None:
        self.capacity = capacity
        self._settings = settings_of(config)
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, asked: Asked, devices: Sequence[DeviceFacts]) -> Verdict | None:
        """Return what one of these devices found, with `cached` set, its age, and no time spent; None if nothing is."""
        for device in devices:
            key = self._key(asked, device)
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
                return _aged(kept)
        return None

    def put(self, asked: Asked, device: DeviceFacts, verdict: Verdict) -> None:
        """Keep a verdict, if it is one to be kept."""
        if not self.capacity or not is_lasting(verdict):
            return
        key = self._key(asked, device)
        self._kept[key] = _Kept(verdict, time.monotonic())
        self._kept.move_to_end(key)
        while len(self._kept) > self.capacity:
            self._kept.popitem(last=False)

    def _key(self, asked: Asked, device: DeviceFacts) -> bytes:
        parts = [asked.problem, asked.candidate, asked.trials, asked.seed, asked.timeout_s, *device]
        return hashlib.sha256(json.dumps([*parts, self._settings]).encode()).digest()


def settings_of(config: EvaluatorConfig) -> dict[str, Any]:
    """Return everything but the request that decides a verdict: settings, and versions of what judges."""
    return {
        "config": config.model_dump(mode="json", exclude={*SIZING, "trials"}),
        "versions": [__version__, version("torch"), version("triton"), driver_version()],
    }


def driver_version(path: Path = DRIVER) -> str:
    """Return the version of NVIDIA's kernel module, or nothing where there is none."""
    try:
        found = re.search(r"\b\d+\.\d+(\.\d+)?\b", path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ""
    return found[0] if found else ""


def is_lasting(verdict: Verdict) -> bool:
    """Whether the same request would end so again, however busy the machine is."""
    return (
        verdict.status not in _NEVER
        and verdict.error_category not in _OF_THE_MOMENT
        and not _DISTURBED.intersection(verdict.flags)
    )


def _aged(kept: _Kept) -> Verdict:
    spent = replace(type(kept.verdict.seconds)(), age=time.monotonic() - kept.since)
    return replace(kept.verdict, cached=True, seconds=spent)
