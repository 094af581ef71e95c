"""Rounding perturbations of a problem's inputs and parameters: what its answer does under them is its conditioning.

Each element is multiplied by 1 + a, with an a of its own, of either sign, so that what they make of a sum grows as
rounding in another order does: with the square root of its length and with the size of its terms, not of their sum.
Runs come in pairs of opposite signs: where an element lies beside a step of the function (a rounding, a comparison, the
index of a maximum), one of the two crosses it.
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
"""By how much an element is changed at most, relative: 128 roundings of float32 and float64, two of half precision.

A sum of a few thousand terms that is accumulated one after the other is off by tens of roundings of its terms, in
float32. TF32 and half precision inside are off by thousands. What is half precision is accumulated in float32.
"""
TF32_AMPLITUDE: Final = 2.0**-10
"""What TF32 may make of a float32: it keeps ten bits of the fraction, and chips cut the others off."""
_FINE_BITS: Final = {torch.float16: (0x1F, torch.int16), torch.bfloat16: (0x7, torch.int16)}
"""Bits of the fraction of which one at least is set in a number that is not coarse."""
RARE: Final = 1 / 8
"""Share of the numbers of a tensor in half precision up to which coarse ones are chance."""
FEW: Final = 1 / 64
"""Share of coarse numbers below which a tensor has no masks, indices or steps, seen on any input set. What is coarse in
it later a trial made, as a constant row, and what is computed from that is rounded."""
_TILES: Final = (65_537, 1_048_573)
"""Changes repeat after so many elements, the shorter for small tensors: primes, in step with no tensor's rows."""
_MOST_SHORT: Final = 1 << 20
"""Elements up to which the shorter is used."""
_LEAST: Final = 0.5
"""Share of the amplitude that each element is changed by at least."""


def is_coarse(tensor: torch.Tensor) -> torch.Tensor:
    """Return which elements have so few bits that no rounding made them: zeros, ones, masks, indices, steps.

    To perturb an index or a mask that is held as a float would ask for another function.
    """
    if tensor.is_complex():
        return is_coarse(tensor.real) & is_coarse(tensor.imag)
    if tensor.dtype in _FINE_BITS:
        bits, kind = _FINE_BITS[tensor.dtype]
        coarse = ((tensor.contiguous().view(kind) & bits) == 0) | (tensor == tensor.round())
        # One number in 32 is so by chance: where hardly more are, rounding made them.
        other = tensor != 0
        return coarse & ((coarse & other).sum() > RARE * other.sum())
    return (tensor == tensor.to(torch.bfloat16).to(tensor.dtype)) | (
        (tensor == tensor.round()) & (tensor.abs() < 1 << 20)
    )


class Changes:
    """Numbers between -1 and 1 of either sign, half of the amplitude at least: drawn once for a process."""

    def __init__(self, device: torch.device) -> None:
        self._generator = torch.Generator(device).manual_seed(0)
        self._tiles: dict[int, torch.Tensor] = {}

    def take(self, start: int, count: int) -> torch.Tensor:
        """Return `count` changes from a place on; they repeat after a tile."""
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
    """One set of changes, and its opposite.

    Args:
        changes: of the tensors' device.
        seed: of where in them this begins.
        finest: bytes of an element of the answer's finest floating tensor. What has fewer is not perturbed: it is
            exact in what is computed from it.
        tf32: whether the answer is made of products in TF32.
        breaks_ties: whether half precision changes by twice as much: equal numbers, of which no order is promised, most
            often differ then.
        inexact: which of the tensors of a run, by their number, are no masks or indices; kept from run to run.
    """

    def __init__(
        self,
        changes: Changes,
        seed: int,
        finest: int,
        *,
        tf32: bool,
        breaks_ties: bool = False,
        inexact: set[int] | None = None,
    ) -> None:
        self._changes = changes
        self._seed = random.Random(seed).getrandbits(40)
        self._finest = finest
        self._inexact = set() if inexact is None else inexact
        self._amplitude = AMPLITUDE | ({torch.float32: TF32_AMPLITUDE} if tf32 else {})
        if breaks_ties:
            self._amplitude |= {half: 2 * AMPLITUDE[half] for half in _FINE_BITS}
        self._sign = 1.0
        self._at = self._seed
        self._number = 0

    def start(self, sign: float) -> None:
        """Begin a run of the same changes as the one before, or of their opposite: 1 or -1."""
        self._sign, self._at, self._number = sign, self._seed, 0

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor's perturbed copy; one of another kind, or that is exact, as it is."""
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
        """Return a copy of which every element is perturbed, coarse or not; a tensor of another kind as it is."""
        real = tensor.real.dtype if tensor.is_complex() else tensor.dtype
        amplitude = self._amplitude.get(real)
        if amplitude is None or not tensor.numel() or real.itemsize < self._finest:
            return tensor
        changes = self._changes.take(self._at, tensor.numel()).to(real).reshape(tensor.shape)
        # No two tensors of a run are given the same.
        self._at += tensor.numel() + 7919
        return torch.addcmul(tensor, tensor, changes, value=amplitude * self._sign)


def distance(value: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return how far each element of two runs is apart; zero where that is no number.

    Float32 for floating and boolean tensors of at most four bytes, else float64.
    """
    wide = torch.float32 if fits_single(value.dtype) else torch.float64
    if value.is_complex() or value.is_floating_point():
        apart = (value - other).abs() if value.itemsize > 1 else (value.float() - other.float()).abs()
        # Both infinite, or not a number: of such elements a perturbation says nothing.
        apart = torch.where(torch.isfinite(apart), apart, 0.0)
    else:
        apart = (value.double() - other.double()).abs()
    return apart.to(wide)


def fits_single(dtype: torch.dtype) -> bool:
    """Whether distances of this dtype are held in float32."""
    if dtype == torch.bool:
        return True
    return (dtype.is_floating_point and dtype.itemsize <= torch.float32.itemsize) or dtype == torch.complex64
