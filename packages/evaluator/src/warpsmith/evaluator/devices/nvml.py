"""The clock of an NVIDIA GPU's multiprocessors, from its management library. Torch-free; works without the library."""

import ctypes
from typing import Final

LIBRARY: Final = "libnvidia-ml.so.1"
_SM: Final = 1
"""The library's number of the multiprocessors' clock."""
_OK: Final = 0


class SmClock:
    """Reads the clock of one GPU.

    Args:
        uuid: the driver's name of the GPU.
    """

    def __init__(self, uuid: str) -> None:
        self._library = _library()
        self._handle = ctypes.c_void_p()
        if self._library is not None:
            handle = ctypes.byref(self._handle)
            if self._library.nvmlDeviceGetHandleByUUID(uuid.encode(), handle) != _OK:
                self._library = None

    def current_mhz(self) -> float | None:
        """Return the clock now; None if the library or the device does not tell."""
        return self._read("nvmlDeviceGetClockInfo")

    def max_mhz(self) -> float | None:
        """Return the highest clock that the device allows; None likewise."""
        return self._read("nvmlDeviceGetMaxClockInfo")

    def _read(self, function: str) -> float | None:
        found = ctypes.c_uint()
        if self._library is None or getattr(self._library, function)(self._handle, _SM, ctypes.byref(found)) != _OK:
            return None
        return float(found.value)


def _library() -> ctypes.CDLL | None:
    """Return the library, ready to use; None where there is none or no driver."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        return None
    return library if library.nvmlInit_v2() == _OK else None
