"""Adds to a reference's functions the rounding error that their textbook forms have in plain arithmetic.

Torch computes softplus so that small results keep all their digits. `log(1 + exp(x))` is the same function, but its
sum has the rounding error of a number near one, however small the result is. Where later steps multiply a small result
by a large number, that error exceeds every tolerance of the output, though each step is right. Perturbed inputs do not
show it. So perturbed runs add it where it arises: some roundings of the largest intermediate number of the textbook
form, never more than the result itself. One more run computes the textbook forms: small results all round to zero in
the same way, and random errors of a sum of them can cancel where theirs do not.

A softmax divides an exponential by a sum of exponentials. A compiler may compute an exponent twice, fused with a
product in one place and rounded in the other, so that the two differ by one step of the largest number that is
exponentiated. Where steps are large, as those of products of two far draws are, a kernel that is right is off by a
factor, though its result depends on no input's rounding. So perturbed runs change each result by such a step.

As for the output's own floor, functions whose results are small on plain inputs too get proportionally less.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, Final

import torch

from warpsmith.evaluator.correctness.spread import Perturbation
from warpsmith.evaluator.operator_mode import OperatorMode, operator_name

ROUNDINGS: Final = 4
"""Roundings of the intermediate number. A logarithm near one is off by two on a chip, and the sum in it by a half."""
FULL_SHARE: Final = 1 / 16
"""Mean result on plain inputs, as a share of the intermediate number, from which on all roundings count. Below it the
function gets proportionally less: a problem that takes `log1p` of small numbers only asks for their digits. But two
operations of a textbook form round by one each: mish of numbers from -5 to 0, a tenth of them, needs all of its two."""
MOST_FACTOR: Final = 8.0
"""Largest |x| that counts in x * Phi(x): beyond it the textbook form of Phi is exactly 0 or 1."""

Size = Callable[[torch.Tensor], torch.Tensor]
SOFTMAXES: Final = frozenset({"_softmax", "_safe_softmax"})
ATTENTIONS: Final = "_scaled_dot_product"
"""How the names of torch's fused attentions begin; they take queries and keys first, and `scale` by name."""


def _one(x: torch.Tensor) -> torch.Tensor:
    return x.new_ones(())


def _one_if_negative(x: torch.Tensor) -> torch.Tensor:
    return (x < 0).to(x.dtype)


def _factor(x: torch.Tensor) -> torch.Tensor:
    return x.abs().clamp(max=MOST_FACTOR)


INTERMEDIATES: Final[dict[str, Size]] = {
    **dict.fromkeys(("softplus", "log_sigmoid_forward", "log1p", "expm1", "tanh", "sinh", "asinh", "atanh"), _one),
    **dict.fromkeys(("logaddexp", "logaddexp2", "logsumexp", "logcumsumexp", "_log_softmax"), _one),
    "elu": _one_if_negative,
    "gelu": _factor,
    "mish": lambda x: 2 * _factor(x),
}
"""Size of the largest intermediate number of each function's textbook form, by the first argument; `celu` and `selu`
are made of `elu`. Mish is x tanh(log(1 + exp(x))): a product with two of them."""


def _softplus(x: torch.Tensor, beta: float = 1.0, threshold: float = 20.0) -> torch.Tensor:
    return torch.where(x * beta > threshold, x, torch.log(1 + torch.exp(x * beta)) / beta)


def _log_sigmoid(x: torch.Tensor) -> torch.Tensor:
    return x.clamp(max=0) - torch.log(1 + torch.exp(-x.abs()))


def _elu(x: torch.Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> torch.Tensor:
    return scale * torch.where(x > 0, x, alpha * (torch.exp(x * input_scale) - 1))


def _logaddexp(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.maximum(x, y) + torch.log(1 + torch.exp(-(x - y).abs()))


TEXTBOOK: Final[dict[str, Callable[..., torch.Tensor]]] = {
    "softplus": _softplus,
    "log_sigmoid_forward": _log_sigmoid,
    "elu": _elu,
    "logaddexp": _logaddexp,
    "log1p": lambda x: torch.log(1 + x),
    "expm1": lambda x: torch.exp(x) - 1,
    "tanh": lambda x: 2 / (1 + torch.exp(-2 * x)) - 1,
    "gelu": lambda x: 0.5 * x * (1 + torch.erf(x * math.sqrt(0.5))),
}
"""Textbook forms with a single largest intermediate number, which every way of writing them rounds the same."""


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple | list) else result


class PlainFormFinder(OperatorMode):
    """Notes which functions with a lossy textbook form a reference calls, and how large their results are.

    Attributes:
        shares: for each function, which share of the roundings counts: the mean result as a share of the mean
            intermediate number, relative to `FULL_SHARE`, at most 1; for a softmax the largest step of its exponents,
            which is usual then: fully masked rows have large ones.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shares: dict[str, float] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = operator_name(func)
        size = _size(name, args)
        step = _step(name, args, kwargs or {}) if _is_softmax(name) else None
        result = func(*args, **(kwargs or {}))
        made = _first(result)
        if step is not None:
            self.shares[name] = max(self.shares.get(name, 0.0), float(step.amax()))
        elif size is not None and made.numel():
            share = float(_mean(made.abs())) / max(float(_mean(size)), torch.finfo(size.dtype).tiny)
            # Where a result is not finite, nothing is known about it.
            counted = min(share / FULL_SHARE, 1.0) if math.isfinite(share) else 1.0
            self.shares[name] = max(self.shares.get(name, 0.0), counted)
        return result


class PlainForms(OperatorMode):
    """Context in which those functions get the rounding error of their textbook forms.

    Args:
        perturb: source of the signs and sizes; None to compute the textbook forms themselves, where one is known.
        shares: those of a `PlainFormFinder`.
    """

    def __init__(self, perturb: Perturbation | None, shares: dict[str, float]) -> None:
        super().__init__()
        self._perturb = perturb
        self._shares = shares
        self._calls = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = operator_name(func)
        share = self._shares.get(name, 0.0)
        if name in self._shares and _is_softmax(name):
            return self._softmax(name, func, args, kwargs or {})
        size = _size(name, args) if share else None
        if size is None:
            return func(*args, **(kwargs or {}))
        known = self._perturb is None and name in TEXTBOOK and not kwargs
        textbook = TEXTBOOK[name](*args) if known else None
        result = func(*args, **(kwargs or {}))
        made = _first(result)
        if made.numel():
            # In place where it can be: a large answer has no room for many copies.
            kind = torch.float64 if made.dtype == torch.float64 else torch.float32
            most = size.to(kind) * (ROUNDINGS * torch.finfo(kind).eps * share)
            most = most if not most.dim() or most.shape == made.shape else most.amax()
            most = torch.minimum(most, made.abs().to(kind))
            if textbook is not None:
                apart = torch.nan_to_num_(textbook.to(kind) - made, nan=0.0)
                made.add_(torch.minimum(apart, most, out=apart).clamp_(min=-most).to(made.dtype))
            elif self._perturb is not None:
                made.add_(most.mul_(self._noise(self._perturb, made)).to(made.dtype))
        return result

    def _noise(self, perturb: Perturbation, made: torch.Tensor) -> torch.Tensor:
        """Return the changes of a result; those of every other one have the same sign in both runs of a pair.

        An element computed through two functions, such as x tanh(softplus(x)), may lose both changes to each other. If
        one run has c + d and the other d - c, one of them shows at least the root of the sum of their squares.
        """
        self._calls += 1
        changes = perturb.changes(made)
        return changes if self._calls % 2 else changes * perturb.sign

    def _softmax(self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        step = None if self._perturb is None else _step(name, args, kwargs)
        result = func(*args, **kwargs)
        made = _first(result)
        if step is not None and self._perturb is not None and made.numel():
            noise = self._perturb.changes(made).mul_((step - self._shares[name]).clamp_(0.0, 1.0))
            made.add_(noise.mul_(made).to(made.dtype))
        return result


def has_textbook_form(names: Iterable[str]) -> bool:
    """Whether a run with `PlainForms(None, ...)` differs from a plain one, of a reference with these functions."""
    return any(name in TEXTBOOK for name in names)


def _is_softmax(name: str) -> bool:
    return name in SOFTMAXES or name.startswith(ATTENTIONS)


def _step(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
    """Return the step of a softmax's largest exponents, in float32 or float64, by rows if known; None if unknown."""
    one = args[0]
    if not isinstance(one, torch.Tensor) or not one.is_floating_point() or not one.numel():
        return None
    kind = torch.float64 if one.dtype == torch.float64 else torch.float32
    if name in SOFTMAXES:
        largest = one.amax(args[1], keepdim=True).abs()
    else:
        scale = kwargs.get("scale")
        scale = one.shape[-1] ** -0.5 if scale is None else abs(scale)
        largest = _longest(one) * _longest(args[1]) * scale
    # Nothing is known about a row without a finite number.
    return torch.nan_to_num_(largest.to(kind) * torch.finfo(kind).eps, nan=0.0, posinf=0.0)


def _longest(rows: torch.Tensor) -> torch.Tensor:
    lengths: torch.Tensor = torch.linalg.vector_norm(rows, dim=-1, dtype=torch.promote_types(rows.dtype, torch.float32))
    return lengths.amax()


def _mean(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.mean(dtype=torch.float64)


def _size(name: str, args: tuple[Any, ...]) -> torch.Tensor | None:
    """Return the intermediate number's size, taken before a call that may overwrite its argument; None for others."""
    size = INTERMEDIATES.get(name)
    if size is None or not isinstance(args[0], torch.Tensor) or not args[0].is_floating_point():
        return None
    return size(args[0])
