"""Runs a reference with other orders of equal numbers, where torch's functions specify none.

Perturbed inputs break most ties, but not all: numbers that underflow to zero stay equal, and of three equal numbers in
half precision two can move together. Two runs, each with a specified order, show what another order gives.
"""

from typing import Any

import torch

from warpsmith.evaluator.operator_mode import OperatorMode, operator_name


class TiedOrder(OperatorMode):
    """Context in which equal numbers are ordered by their index, by functions that specify no order of them.

    Args:
        backwards: whether the last of equal numbers comes first.
    """

    def __init__(self, *, backwards: bool) -> None:
        super().__init__()
        self._backwards = backwards

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        match operator_name(func):
            case "topk" if "out" not in kwargs:
                return self._topk(*args, **kwargs)
            case "sort" if "out" not in kwargs and not kwargs.get("stable"):
                named = (
                    {"dim": -1, "descending": False} | kwargs | dict(zip(("dim", "descending"), args[1:], strict=False))
                )
                return self._sorted(args[0], named["dim"], descending=named["descending"])
            case _:
                return func(*args, **kwargs)

    def _topk(
        self,
        numbers: torch.Tensor,
        k: int,
        dim: int = -1,
        largest: bool = True,
        sorted: bool = True,
    ) -> Any:
        values, indices = self._sorted(numbers, dim, descending=largest)
        if not numbers.dim():
            return values, indices
        return values.narrow(dim, 0, k).contiguous(), indices.narrow(dim, 0, k).contiguous()

    def _sorted(self, numbers: torch.Tensor, dim: int, *, descending: bool) -> tuple[torch.Tensor, torch.Tensor]:
        if not numbers.dim():
            return numbers.clone(), torch.zeros_like(numbers, dtype=torch.int64)
        ordered = numbers.flip(dim) if self._backwards else numbers
        values, indices = ordered.sort(dim=dim, descending=descending, stable=True)
        return values, numbers.shape[dim] - 1 - indices if self._backwards else indices
