"""Parts that installed packages provide by name: one registry per entry-point group.

Built-in parts are declared in the `pyproject.toml` of their own package, like those of any other package:

    [project.entry-points."warpsmith.rewards"]
    my_reward = "my_package.rewards:MyReward"

Listing names imports nothing; `Registry.get` imports only the requested part.
"""

import difflib
import functools
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Generic, TypeVar

from warpsmith.records.errors import UsageError

T = TypeVar("T")

SIMILAR: Final = 0.7
"""Minimum similarity of a suggested name; `gpu` and `cpu` have 0.67, and mean different things."""
_WHAT_LOADING_RAISES = (Exception, SystemExit)
"""A module that calls `sys.exit()` on import must not end the command that listed it."""


class RegistryError(UsageError):
    """A part cannot be provided: unknown name, duplicate name, or an entry point that does not load."""


class UnknownNameError(RegistryError):
    """No installed package provides a part of this name."""


class DuplicateNameError(RegistryError):
    """Two installed packages provide a part of the same name."""


class BrokenEntryPointError(RegistryError):
    """An entry point cannot be imported, or is not what its group expects."""


class Registry(Generic[T]):
    """The parts of one entry-point group.

    Args:
        group: the entry-point group, for example `warpsmith.rewards`.
        noun: what messages call one part, for example `reward`.
        check: returns what is wrong with a loaded part, as the end of a sentence ("has no method `score`"), or "".
    """

    def __init__(self, group: str, noun: str, check: Callable[[Any], str] = lambda part: "") -> None:
        self.group = group
        self.noun = noun
        self._check = check

    def names(self) -> tuple[str, ...]:
        """Return all names, sorted, without importing the parts.

        Raises:
            DuplicateNameError: two packages provide the same name.
        """
        return tuple(self._entry_points())

    def get(self, name: str) -> T:
        """Import and return the part of this name.

        Raises:
            UnknownNameError: no such part; the message lists the names and suggests the closest.
            DuplicateNameError: two packages provide the same name.
            BrokenEntryPointError: it cannot be imported, or is not a part of this group.
        """
        found = self._entry_points().get(name)
        if found is None:
            raise self._unknown(name)
        try:
            part: T = found.load()
        except _WHAT_LOADING_RAISES as error:
            raise BrokenEntryPointError(
                f"The {self.noun} `{name}` of {_distribution(found)} cannot be imported from {found.value}: "
                f"{type(error).__name__}: {error}.",
                "Fix or uninstall that package.",
            ) from error
        wrong = self._check(part)
        if wrong:
            raise BrokenEntryPointError(
                f"The {self.noun} `{name}` of {_distribution(found)} cannot be used: {found.value} {wrong}.",
                "Fix that package; docs/extending.md says what is expected.",
            )
        return part

    def check_name(self, name: str) -> str:
        """Return the name if a package provides it. Imports nothing, so configurations can be checked with it.

        Raises:
            UnknownNameError: no package does.
            DuplicateNameError: two packages provide the same name.
        """
        if name not in self._entry_points():
            raise self._unknown(name)
        return name

    def provider(self, name: str) -> str:
        """Return the distribution that provides a name, as `my-package 1.2`; errors as for `check_name`."""
        return _distribution(self._entry_points()[self.check_name(name)])

    def _entry_points(self) -> Mapping[str, EntryPoint]:
        # Keyed by the path: a directory added later may contain more distributions.
        found, duplicate = _scan(self.group, tuple(sys.path))
        if duplicate is not None:
            first, second = duplicate
            raise DuplicateNameError(
                f"Two packages provide a {self.noun} `{first.name}`: {_distribution(first)} ({first.value}) and "
                f"{_distribution(second)} ({second.value}).",
                "Uninstall one of them, or rename its entry point.",
            )
        return found

    def _unknown(self, name: str) -> UnknownNameError:
        names = self.names()
        if not names:
            return UnknownNameError(
                f"There is no {self.noun} `{name}`: no installed package has entry points in `{self.group}`.",
                "Install Warpsmith's packages again; their metadata is older than their code.",
            )
        near = difflib.get_close_matches(name, names, n=1, cutoff=SIMILAR)
        return UnknownNameError(
            f"There is no {self.noun} `{name}`; installed are {', '.join(names)}.",
            f"Did you mean `{near[0]}`?" if near else "Choose one of them, or install the package that provides it.",
        )


@functools.lru_cache(maxsize=64)
def _scan(group: str, path: tuple[str, ...]) -> tuple[dict[str, EntryPoint], tuple[EntryPoint, EntryPoint] | None]:
    """Return a group's entry points by name, and the first two that share a name, if any."""
    found: dict[str, EntryPoint] = {}
    for entry_point in sorted(entry_points(group=group), key=lambda one: (one.name, _distribution(one))):
        if entry_point.name in found:
            return found, (found[entry_point.name], entry_point)
        found[entry_point.name] = entry_point
    return found, None


def _distribution(entry_point: EntryPoint) -> str:
    dist = entry_point.dist
    return "an unnamed package" if dist is None else f"{dist.name} {dist.version}"
