"""Tracks whether a GPU still works after candidates' faults: probes, counters, and the decision to stop using it.

A fault ends the candidate's process and says nothing about the device: hostile kernels fault all the time. So no number
of faults puts a device out of use, but several failed probes in a row do.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

import torch

from warpsmith.evaluator.errors import DeviceQuarantinedError

FAULTS: Final = frozenset(
    {
        "illegal_memory_access",
        "memory_fault",
        "segmentation_fault",
        "process_error",
        "timeout",
        "shared_memory_exceeded",
    }
)
"""Error categories after which the device is probed."""
ATTEMPTS: Final = 3
PAUSE_S: Final = 0.5
DEADLINE_S: Final = 30.0
PROBED_BYTES: Final = 64 << 20
SIDE: Final = 512


class DeviceHealth:
    """Probes one device and remembers the results; `note` can be called from several threads.

    Args:
        probe: returns what is wrong with the device, or an empty string; it can raise or hang.
        attempts: consecutive failed probes that put the device out of use.
        pause_s: seconds between probes.
        deadline_s: seconds for one probe; a probe that hangs puts the device out of use at once.

    Attributes:
        faults: number of candidates' faults by error category.
        failed_probes: number of failed probes.
        finding: why the device is out of use; empty while it is in use.
    """

    def __init__(
        self,
        probe: Callable[[], str],
        *,
        attempts: int = ATTEMPTS,
        pause_s: float = PAUSE_S,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self.faults: Counter[str] = Counter()
        self.failed_probes = 0
        self.finding = ""
        self._probe = probe
        self._attempts, self._pause_s, self._deadline_s = attempts, pause_s, deadline_s
        self._lock = threading.Lock()

    def note(self, category: str | None) -> None:
        """Count a fault and probe the device; ignores categories that are not faults."""
        if category not in FAULTS:
            return
        with self._lock:
            self.faults[category] += 1
            self._probe_until_sure()

    def suspect(self) -> None:
        """Probe the device after a failure of the evaluator's own."""
        with self._lock:
            self._probe_until_sure()

    def check(self) -> None:
        """Raise DeviceQuarantinedError if the device is out of use."""
        if self.finding:
            faults = ", ".join(f"{count} {category}" for category, count in self.faults.most_common()) or "no fault"
            raise DeviceQuarantinedError(
                f"The GPU is out of use: {self.finding} ({self.failed_probes} probes failed; {faults} before).",
                "Look for Xid errors in `nvidia-smi -q` and the kernel log, reset the device, and restart the "
                "evaluator; evaluate on another GPU meanwhile.",
            )

    def _probe_until_sure(self) -> None:
        if self.finding:
            return
        for attempt in range(self._attempts):
            if attempt:
                time.sleep(self._pause_s)
            wrong, hung = self._probed()
            if not wrong:
                return
            self.failed_probes += 1
            if hung:
                break
        self.finding = wrong

    def _probed(self) -> tuple[str, bool]:
        """Return what one probe found, and whether it hung."""
        found: list[str] = []

        def run() -> None:
            try:
                found.append(self._probe())
            except torch.OutOfMemoryError:
                found.append("")  # other processes hold its memory, which says nothing about the device
            except Exception as error:  # noqa: BLE001  (a driver can fail in any way; the finding says how)
                found.append(f"{type(error).__name__}: {str(error)[:300]}")

        thread = threading.Thread(target=run, name="device-probe", daemon=True)
        thread.start()
        thread.join(self._deadline_s)
        return (found[0], False) if found else (f"a probe gave no answer within {self._deadline_s:g} s", True)


def probe_device(device: torch.device) -> str:
    """Write and read memory and multiply small integers; return what was wrong, or an empty string."""
    words = torch.arange(PROBED_BYTES // 4, dtype=torch.int32, device=device)
    if not torch.equal(words.flip(0).flip(0), words) or int(words[-1]) != PROBED_BYTES // 4 - 1:
        return "memory reads back other values than were written"
    # Small enough that products and sums are exact in any precision that the device uses.
    rows = (torch.arange(SIDE * SIDE, device=device) % 7).view(SIDE, SIDE)
    product = (rows.float() @ rows.float()).cpu()
    expected = rows.cpu().long() @ rows.cpu().long()
    return "" if torch.equal(product.long(), expected) else "matrix products are wrong"
