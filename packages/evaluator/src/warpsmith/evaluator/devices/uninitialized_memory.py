"""Contents of fresh memory: new garbage in each call, so that no kernel can rely on it or recognize it."""

import math
from typing import Final

import numpy as np
import torch
from numpy.random import default_rng  # imported here, before a fork: numpy would import it in each worker

_TILE: Final = 2039
"""Elements drawn and then repeated; a prime, so that consecutive blocks of a kernel see different values."""

_SMALLEST_EXPONENT: Final = -7
_SHARE_OF_NAN: Final = 0.25
_SHARE_OF_ZEROS: Final = 0.06


class Garbage:
    """Draws unpredictable garbage; one instance for each call of a candidate, and one for a replay."""

    def __init__(self) -> None:
        self._generator = default_rng()  # seeded by the kernel
        self._tiles: dict[torch.dtype, torch.Tensor] = {}

    def fill(self, tensor: torch.Tensor) -> None:
        """Overwrite the whole storage of a newly allocated tensor."""
        size = tensor.untyped_storage().nbytes() // max(tensor.element_size(), 1)
        if not size or not tensor.numel():
            return
        kind = tensor.dtype.to_real() if tensor.dtype.is_complex else tensor.dtype
        flat = torch.view_as_real(tensor) if tensor.dtype.is_complex else tensor
        flat = flat.as_strided((size * (2 if tensor.dtype.is_complex else 1),), (1,), 0)
        # Copy only the tile to the device, and repeat it there.
        tile, whole = self._tile(kind).to(tensor.untyped_storage().device), len(flat) // _TILE * _TILE
        flat[:whole].view(-1, _TILE).copy_(tile)
        begin = int(self._generator.integers(_TILE - (len(flat) - whole) + 1))
        flat[whole:].copy_(tile[begin : begin + len(flat) - whole])

    def _tile(self, dtype: torch.dtype) -> torch.Tensor:
        if dtype not in self._tiles:
            drawn = self._floats(dtype) if dtype.is_floating_point else self._integers(dtype)
            self._tiles[dtype] = torch.from_numpy(drawn).to(dtype)
        return self._tiles[dtype]

    def _floats(self, dtype: torch.dtype) -> np.ndarray:
        """Return numbers of both signs and all magnitudes above 1/128, with some NaN and some zeros."""
        largest = int(math.log2(torch.finfo(dtype).max)) - 1
        exponents = self._generator.integers(_SMALLEST_EXPONENT, largest, _TILE, dtype=np.int32)
        drawn: np.ndarray = np.ldexp(self._generator.random(_TILE) * 2 - 1, exponents)
        choice = self._generator.random(_TILE)
        drawn[choice < _SHARE_OF_NAN] = np.nan
        drawn[choice > 1 - _SHARE_OF_ZEROS] = 0.0
        return drawn

    def _integers(self, dtype: torch.dtype) -> np.ndarray:
        """Return integers of all magnitudes: random bits shifted right by a random number of places."""
        bits = self._generator.integers(-(2**63), 2**63 - 1, _TILE, dtype=np.int64, endpoint=True)
        if dtype == torch.bool:
            return bits < 0
        width = 8 * dtype.itemsize
        return bits >> self._generator.integers(64 - width, 64, _TILE)
