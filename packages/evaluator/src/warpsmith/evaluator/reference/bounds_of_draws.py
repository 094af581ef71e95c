"""Bounds of integer draws that follow a size: labels stay below the number of classes when that number changes.

Runs in the reference worker. A size can change in one place of the source and not in another, as in `randn(14, 3, 40)`
next to `randint(1, 40, (3, 4))`. torch does not check all indices, so a problem may tolerate labels beyond the classes;
a candidate would read beyond its tensor. A bound that equals a size is taken for that size.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

BOUNDED: Final = frozenset({"randint", "randint_like", "random_", "integers", "randrange"})
"""Functions of torch, NumPy and Python that draw integers below or up to a bound."""
UPPER: Final = ("high", "to", "b", "stop")
BESIDE: Final = (0, 1, -1)
"""Distances of a bound from its size: offsets reach the number of rows, and a label may leave out the last class."""


class DrawBounds:
    """The upper bounds of integer draws.

    Bounds only shrink, like sizes, so all numbers stay within what `get_inputs` draws for its sample.

    Args:
        changes: the sample's value and the other value of each size.
    """

    def __init__(self, changes: Iterable[tuple[int, int]] = ()) -> None:
        changes = list(changes)
        least: dict[int, int] = {}
        for sample, size in changes:
            least[sample] = min(least.get(sample, size), size)
        self._least = least
        # What the source writes, and what it computes from a name that already has its other value.
        self._samples: dict[int, set[int]] = {sample: {sample} for sample in least}
        for sample, size in changes:
            self._samples.setdefault(size, set()).add(sample)

    def asked(
        self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a function that draws integers, with the bound that the sizes allow."""
        kwargs = dict(kwargs)
        if name not in BOUNDED or not self._least:
            return args, kwargs
        given = args[:1] if len(args) > 1 and args[1] is None else args
        places = [place for place, value in enumerate(given) if type(value) is int][:2]
        words = [word for word in UPPER if type(kwargs.get(word)) is int]
        low = kwargs.get("low", args[places[0]] if len(places) > 1 or (places and words) else 0)
        low = low if type(low) is int else 0
        if words:
            kwargs[words[0]] = self.below(kwargs[words[0]], low)
        elif places:
            args = (*args[: places[-1]], self.below(args[places[-1]], low), *args[places[-1] + 1 :])
        return args, kwargs

    def below(self, high: int, low: int = 0) -> int:
        """Return a bound that the sizes allow: no larger than before, and if possible larger than `low`."""
        found = [high]
        for beside in BESIDE:
            samples = self._samples.get(high - beside, ())
            found += [self._least[sample] + beside for sample in samples]
        # A bound that leaves no number is an error of the draw, and the change is dropped.
        exact = min([high, *(self._least[sample] for sample in self._samples.get(high, ()))])
        return exact if min(found) <= low else min(found)
