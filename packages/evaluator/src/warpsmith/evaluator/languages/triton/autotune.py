"""Runs kernels under `triton.autotune` without a device to time their configurations on.

On a GPU any configuration can be the fastest, and all of them run on the arguments, many times, before the first launch
that counts. Here they take turns, one per call, in an order that is drawn; a few are reported, to be compiled. The
judge records a few, and others in place of those that do not compile, which the autotuner would skip. The first launch
runs once before, so a kernel that adds to its output needs `reset_to_zero` here too.
"""

import random
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from triton.runtime import autotuner

MAX_DRAWN: Final = 16
MAX_REPORTED: Final = 3


class Tuning:
    """Chooses the configurations of the autotuned kernels of this process.

    Args:
        report: calls a function whose launches are reported but not run.

    Attributes:
        timed: whether a kernel ran in this call as if it were timed.
        taken: the configuration used in this call, by kernel.
    """

    def __init__(self, report: Callable[[Callable[[], Any]], None]) -> None:
        self.timed = False
        self.taken: dict[str, str] = {}
        self._report = report
        self._rng = random.Random()
        self._call = 0
        self._drawn: dict[Any, list[autotuner.Config]] = {}

    @property
    def variants(self) -> int:
        """The number of calls until every drawn configuration of every kernel has run."""
        return max((len(drawn) for drawn in self._drawn.values()), default=1)

    def next_call(self, seed: int) -> None:
        """Advance to the next drawn configuration; the first seed decides which are drawn."""
        if not self._call:
            self._rng = random.Random(seed)
        self._call += 1
        self.timed = False
        self.taken = {}

    def run(self, tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Launch a kernel with the configuration whose turn it is."""
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        found = tuner.prune_configs(kwargs) if len(tuner.configs) > 1 else tuner.configs
        first = tuner not in self._drawn
        if first:
            self._drawn[tuner] = self._rng.sample(found, min(len(found), MAX_DRAWN))
        drawn = [config for config in self._drawn[tuner] if config in found] or found
        config = drawn[self._call % len(drawn)]
        if first and len(found) > 1:
            for other in drawn[:MAX_REPORTED]:
                self._report(partial(_launch, tuner, other, args, kwargs))
            self._time(tuner, config, args, kwargs)
        tuner.best_config = config
        self.taken[tuner.base_fn.__name__] = ", ".join(f"{name}={value}" for name, value in config.all_kwargs().items())
        result = _launch(tuner, config, args, kwargs)
        tuner.nargs = None
        return result

    def _time(self, tuner: Any, config: autotuner.Config, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Run a launch with all hooks as Triton does for timing, then the reset before the launch that counts."""
        self.timed = True
        full = {**tuner.nargs, **kwargs, **config.all_kwargs()}
        if config.pre_hook is not None:
            config.pre_hook(full)
        tuner.pre_hook(full)
        tuner.fn.run(*args, **kwargs, **config.all_kwargs())
        tuner.post_hook(full, exception=None)
        tuner.pre_hook(full, reset_only=True)


def _launch(tuner: Any, config: autotuner.Config, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Launch with a configuration, after its hook, which can change arguments such as a descriptor's block."""
    if config.pre_hook is not None:
        config.pre_hook({**tuner.nargs, **kwargs, **config.all_kwargs()})
    return tuner.fn.run(*args, **kwargs, **config.all_kwargs())


def install(tuning: Tuning) -> None:
    """Route every launch of an autotuned kernel in this process through `tuning`."""

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        return tuning.run(self, args, kwargs)

    autotuner.Autotuner.run = run
