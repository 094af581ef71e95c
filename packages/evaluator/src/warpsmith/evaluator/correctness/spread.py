"""Perturbs a problem's inputs and parameters by rounding-size changes, to measure the conditioning of its answer.

Each element is multiplied by 1 + a, with its own `a` of either sign, so that the effect on a sum grows as the effect of
another summation order does: with the square root of its length and the size of its terms, not of the sum itself. Runs
come in pairs with opposite signs: if an element is next to a step of the function (a rounding, a comparison, the index
of a maximum), one of the two crosses it.
"""

import random
from typing import Final

import torch

AMPLITUDE: Final[dict[torch.dtype, float]] = {
    torch.float64: 2.0**-46,
    torch.float32: 2.0**-17,
    torch.float16: 2.0**-10,
    torch.bfloat16: 2.0**-7,
}
"""Largest relative change of an element: 128 roundings of float32 and float64, two of half precision.

A float32 sum of a few thousand terms, accumulated sequentially, has an error of tens of roundings of its terms. TF32
and half precision inside cause thousands. Half precision is accumulated in float32.
"""
FINE: Final = {torch.float64: 2.0**-51, torch.float32: 2.0**-22}
"""One to four roundings of an element: breaks ties, and excuses no other order of numbers that differ by more. A chip's
exponential, sine or quotient is off by as much."""
TF32_AMPLITUDE: Final = 2.0**-10
"""Error of TF32 on a float32: it keeps ten bits of the fraction, and chips truncate the others."""
_FINE_BITS: Final = {torch.float16: (0x1F, torch.int16), torch.bfloat16: (0x7, torch.int16)}
"""Bits of the fraction; a number in which at least one of them is set is not coarse."""
RARE: Final = 1 / 8
"""Share of coarse numbers in a half-precision tensor up to which they are attributed to chance."""
FEW: Final = 1 / 64
"""Share of coarse numbers below which a tensor has no masks, indices or steps, on any input set. Coarse numbers in
later ones come from a trial, for example a constant row, and results computed from them are rounded."""
_TILES: Final = (65_537, 1_048_573)
"""Periods after which changes repeat, the shorter for small tensors: primes, so that they do not align with rows."""
_MOST_SHORT: Final = 1 << 20
"""Maximum elements for which the shorter period is used."""
_LEAST: Final = 0.5
"""Smallest change of an element as a share of the amplitude."""


def is_coarse(tensor: torch.Tensor) -> torch.Tensor:
    """Return which elements have so few bits that they are not results of rounding: zeros, masks, indices, steps.

    Perturbing an index or a mask that is stored as a float would evaluate another function.
    """
    if tensor.is_complex():
        return is_coarse(tensor.real) & is_coarse(tensor.imag)
    if tensor.dtype in _FINE_BITS:
        bits, kind = _FINE_BITS[tensor.dtype]
        coarse = ((tensor.contiguous().view(kind) & bits) == 0) | (tensor == tensor.round())
        # One number in 32 is coarse by chance: if hardly more are, they are results of rounding.
        other = tensor != 0
        return coarse & ((coarse & other).sum() > RARE * other.sum())
    return (tensor == tensor.to(torch.bfloat16).to(tensor.dtype)) | (
        (tensor == tensor.round()) & (tensor.abs() < 1 << 20)
    )


class Changes:
    """Numbers of magnitude 1/2 to 1 with random sign, drawn once per process."""

    def __init__(self, device: torch.device) -> None:
        self._generator = torch.Generator(device).manual_seed(0)
        self._tiles: dict[int, torch.Tensor] = {}

    def take(self, start: int, count: int) -> torch.Tensor:
        """Return `count` changes from an offset on; they repeat after a tile."""
        tile = self._tile(_TILES[count > _MOST_SHORT])
        start %= tile.numel()
        if start + count <= tile.numel():
            return tile[start : start + count]
        return tile.repeat(-(-(start + count) // tile.numel()))[start : start + count]

    def _tile(self, length: int) -> torch.Tensor:
        if length not in self._tiles:
            drawn = torch.rand(length, generator=self._generator, device=self._generator.device) * 2 - 1
            self._tiles[length] = torch.copysign(_LEAST + (1 - _LEAST) * drawn.abs(), drawn)
        return self._tiles[length]


class Perturbation:
    """One set of changes, and its negation.

    Args:
        changes: changes on the tensors' device.
        seed: determines the offset into the changes.
        finest: bytes per element of the answer's finest floating dtype. Tensors with fewer bytes per element are not
            perturbed: the computation treats them as exact.
        tf32: whether the answer is computed by products in TF32.
        breaks_ties: whether half precision changes twice as much: ties, whose order is undefined, then mostly break.
        finely: whether float32 and float64 change by a few roundings only.
        inexact: indices of a run's tensors that are not masks or indices; kept from run to run.

    Attributes:
        sign: 1 for a run with the changes, -1 for one with their negation.
        alternates: whether every other tensor has the negated changes.
    """

    def __init__(
        self,
        changes: Changes,
        seed: int,
        finest: int,
        *,
        tf32: bool,
        breaks_ties: bool = False,
        finely: bool = False,
        inexact: set[int] | None = None,
    ) -> None:
        self._changes = changes
        self._seed = random.Random(seed).getrandbits(40)
        self._finest = finest
        self._inexact = set() if inexact is None else inexact
        self._amplitude = AMPLITUDE | ({torch.float32: TF32_AMPLITUDE} if tf32 else {})
        if finely:
            self._amplitude |= FINE
        if breaks_ties:
            self._amplitude |= {half: 2 * AMPLITUDE[half] for half in _FINE_BITS}
        self.start(1.0)

    def start(self, sign: float, *, alternates: bool = False) -> None:
        """Begin a run with the same changes as the one before if `sign` is 1, or with their negation if it is -1.

        An element computed through two tensors may lose both changes to each other: c + d is 0 where d is -c. If one
        run alternates and another does not, they meet c + d and c - d, whose squares add up to 2 (c^2 + d^2): one of
        the runs shows at least the root mean square.
        """
        self.sign, self.alternates, self._at, self._number, self._taken = sign, alternates, self._seed, 0, 0

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a perturbed copy of a tensor; return it unchanged if it is exact or of another kind."""
        self._number += 1
        changed = self.everywhere(tensor)
        if changed is tensor or self._number in self._inexact:
            return changed
        coarse = is_coarse(tensor)
        other = tensor != 0
        if bool((coarse & other).sum() < FEW * other.sum()):
            self._inexact.add(self._number)
            return changed
        return torch.where(coarse, tensor, changed)

    def everywhere(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy with every finite element perturbed, coarse or not; return another kind of tensor unchanged."""
        real = tensor.real.dtype if tensor.is_complex() else tensor.dtype
        amplitude = self._amplitude.get(real)
        if amplitude is None or not tensor.numel() or real.itemsize < self._finest:
            return tensor
        changed = torch.addcmul(tensor, tensor, self._next(tensor).to(real), value=amplitude * self.sign)
        # An infinity has no rounding, and half of them would become NaN: minus infinity masks logits.
        return torch.where(torch.isinf(tensor), tensor, changed)

    def changes(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return numbers of magnitude 1/2 to 1 in the shape of a tensor, with the run's signs."""
        return self._next(tensor) * self.sign

    def _next(self, tensor: torch.Tensor) -> torch.Tensor:
        changes = self._changes.take(self._at, tensor.numel()).reshape(tensor.shape)
        # No two tensors of a run get the same changes.
        self._at += tensor.numel() + 7919
        self._taken += 1
        return -changes if self.alternates and self._taken % 2 else changes


def distance(value: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the distance of each element between two runs; infinite where one of them has an infinity.

    It is zero where both have an infinity, or one has NaN: the perturbation gives no information about such elements.
    Float32 for floating and boolean tensors of at most four bytes, else float64.
    """
    wide = torch.float32 if fits_single(value.dtype) else torch.float64
    if value.is_complex() or value.is_floating_point():
        value, other = (one if one.itemsize > 1 else one.float() for one in (value, other))
        apart = (value - other).abs()
        finite = torch.isfinite(apart)
        if bool(finite.all()):
            return apart.to(wide)
        # A mask of infinities that depends on roundings, or an overflow.
        flips = torch.isfinite(value) != torch.isfinite(other)
        flips &= ~(torch.isnan(value) | torch.isnan(other))
        apart = torch.where(flips, torch.inf, torch.where(finite, apart, 0.0))
    else:
        apart = (value.double() - other.double()).abs()
    return apart.to(wide)


def fits_single(dtype: torch.dtype) -> bool:
    """Whether distances of this dtype are held in float32."""
    if dtype == torch.bool:
        return True
    return (dtype.is_floating_point and dtype.itemsize <= torch.float32.itemsize) or dtype == torch.complex64
