"""Several kernel languages in one candidate: each launch of a recording names the language of its kernel.

The option `language` of a launch event holds the name. Whatever is about one kernel goes to that language; the first
language answers what is about a whole candidate. Importable without torch.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.languages.base import (
    Described,
    DescribeTensor,
    Hooks,
    HostServices,
    InterpretedKernels,
    KernelLanguage,
    LaunchMonitor,
    LoadedCode,
    LoadedKernel,
    MakeTensor,
    OnLaunch,
    Tuning,
    UnsupportedDeviceError,
)
from warpsmith.evaluator.languages.chips import Chip

if TYPE_CHECKING:
    import torch

    from warpsmith.evaluator.config import EvaluatorConfig
    from warpsmith.evaluator.devices.base import Device
    from warpsmith.evaluator.devices.kinds import Role, ZygoteKind

OPTION: Final = "language"
"""The option of a launch event that names the language of its kernel."""
_Item = TypeVar("_Item")


class Monitors:
    """The launch monitors of several languages as one; see `languages.base.LaunchMonitor`."""

    def __init__(self, monitors: Mapping[str, LaunchMonitor]) -> None:
        self._monitors = monitors
        self._on_launch: OnLaunch | None = None

    @property
    def launches(self) -> int:
        """Number of launches in all languages since it was last set to 0."""
        return sum(monitor.launches for monitor in self._monitors.values())

    @launches.setter
    def launches(self, count: int) -> None:
        for place, monitor in enumerate(self._monitors.values()):
            monitor.launches = 0 if place else count

    @property
    def on_launch(self) -> OnLaunch | None:
        """Called for each launch; its options also name the language."""
        return self._on_launch

    @on_launch.setter
    def on_launch(self, call: OnLaunch | None) -> None:
        self._on_launch = call
        for name, monitor in self._monitors.items():
            monitor.on_launch = None if call is None else partial(_named, call, name)


def _named(call: OnLaunch, language: str, kernel: str, arguments: dict[str, Any], options: dict[str, Any]) -> list[Any]:
    return call(kernel, arguments, options | {OPTION: language})


class Tunings:
    """The tuning of several languages as one; see `languages.base.Tuning`."""

    def __init__(self, tunings: Sequence[Tuning]) -> None:
        self._tunings = tunings

    @property
    def timed(self) -> bool:
        """Whether a kernel of any language was timed in this call."""
        return any(one.timed for one in self._tunings)

    @timed.setter
    def timed(self, value: bool) -> None:
        for one in self._tunings:
            one.timed = value

    @property
    def taken(self) -> dict[str, str]:
        """The configuration used in this call, by kernel."""
        return {kernel: taken for one in self._tunings for kernel, taken in one.taken.items()}

    @taken.setter
    def taken(self, value: dict[str, str]) -> None:
        for one in self._tunings:
            one.taken = dict(value)

    @property
    def variants(self) -> int:
        """The number of configurations that a kernel can run with."""
        return max(one.variants for one in self._tunings)

    def next_call(self, seed: int) -> None:
        """Begin the next call of forward in each language."""
        for one in self._tunings:
            one.next_call(seed)


class CombinedCode(LoadedCode):
    """The code of a recording's launches, loaded by their languages.

    Args:
        kernels: of each launch, in order.
        parts: what each language loaded, by its name.
    """

    def __init__(self, kernels: Sequence[LoadedKernel], parts: Mapping[str, LoadedCode]) -> None:
        self.kernels = kernels
        self.variables = [variable for code in parts.values() for variable in code.variables]
        self._parts = parts

    def targets(self, options: dict[str, Any]) -> "list[torch.Tensor]":
        """See `LoadedCode`: asks the language that the copy names."""
        name = str(options.get(OPTION))
        # Without a launch in that language nothing reads its variables.
        return self._parts[name].targets(options) if name in self._parts else []


class Combined(KernelLanguage):
    """Languages whose kernels one candidate may launch, in any order.

    Args:
        parts: the languages. The first answers what is about a whole candidate, and is the only one that may compile
            host code or copy to variables.
    """

    interprets = False

    def __init__(self, *parts: KernelLanguage) -> None:
        self._first, *_ = parts
        self._parts = {part.name: part for part in parts}

    @property
    def parts(self) -> Mapping[str, KernelLanguage]:
        """See `KernelLanguage`."""
        return self._parts

    def check(self, config: "EvaluatorConfig") -> None:
        """See `KernelLanguage`: each language must be judged here."""
        for part in self._parts.values():
            part.check(config)

    def is_in(self, source: str) -> bool | None:
        """See `KernelLanguage`: whether it uses the first language, perhaps alongside others."""
        return self._first.is_in(source)

    def version(self) -> str:
        """See `KernelLanguage`: the versions of all."""
        return " ".join(part.version() for part in self._parts.values())

    def launches_of(self, events: list[Any]) -> list[dict[str, Any]]:
        """See `KernelLanguage`: each launch also has its `language`, by which it is compiled."""
        found: list[dict[str, Any]] = []
        for event in events:
            match event:
                case ["launch", str(kernel), grid, arguments, {"language": str(name), **options}]:
                    part = self._part(name)
                    if self.copy_to_variable == kernel != part.copy_to_variable:
                        raise WireError(f"A kernel in {part.title} is named {kernel}, as a copy to a variable is.")
                    own = part.launches_of([["launch", kernel, grid, arguments, options]])
                    found += [launch | {"language": name} for launch in own]
                case ["launch", *_]:
                    raise WireError(f"{str(event)[:80]} is a launch that does not name its language.")
                case list():
                    continue
                case _:
                    raise WireError(f"{str(event)[:80]} is not an event of a trace.")
        return found

    def _part(self, name: str) -> KernelLanguage:
        if name not in self._parts:
            raise WireError(f"A launch is in {name[:40]!r}; one of {', '.join(self._parts)} was expected.")
        return self._parts[name]

    def build_name(self, text: str) -> str:
        """See `KernelLanguage`."""
        return self._first.build_name(text)

    def cannot_form(self, category: str | None, message: str) -> bool:
        """See `KernelLanguage`."""
        return any(part.cannot_form(category, message) for part in self._parts.values())

    def autotuner_skips(self, category: str | None, message: str) -> bool:
        """See `KernelLanguage`."""
        return any(part.autotuner_skips(category, message) for part in self._parts.values())

    def environment(self, *, interpreting: bool) -> dict[str, str]:
        """See `KernelLanguage`: of all; nothing is interpreted."""
        return _merged(part.environment(interpreting=False) for part in self._parts.values())

    def programs(self, arch: Chip) -> tuple[Path, ...]:
        """See `KernelLanguage`: of all."""
        return _flat(part.programs(arch) for part in self._parts.values())

    def folders(self) -> tuple[Path, ...]:
        """See `KernelLanguage`: of all."""
        return _flat(part.folders() for part in self._parts.values())

    def warm_up(self, kind: "ZygoteKind", roles: "tuple[Role, ...]", arch: Chip, folder: Path) -> None:
        """See `KernelLanguage`: of all; nothing is interpreted."""
        for part in self._parts.values():
            part.warm_up("plain", roles, arch, folder)

    def compile(
        self, source: str, launches: list[dict[str, Any]], folder: Path, arch: Chip, *, binaries: bool
    ) -> dict[str, Any]:
        """See `KernelLanguage`: never called, since each compilation is of one of `parts`."""
        raise WireError("A compilation is of one language.")

    def stand_in(self, properties: Any) -> None:
        """See `KernelLanguage`."""
        for part in self._parts.values():
            part.stand_in(properties)

    def record_interpreted(
        self, report: Callable[[dict[str, Any]], None], is_read_only: "Callable[[torch.Tensor], bool]"
    ) -> Hooks:
        """See `KernelLanguage`: `interprets` is false."""
        raise UnsupportedDeviceError(f"{self.title} kernels are not interpreted.")

    def record_detached(self, *, has_device: bool, services: HostServices | None = None) -> Hooks:
        """See `KernelLanguage`: launches of all languages come in their order, each with its language."""
        return _joined(
            {
                name: part.record_detached(has_device=has_device, **_services_of(part, services))
                for name, part in self._parts.items()
            }
        )

    def record_on_device(
        self, device: "Device", compiled: Callable[[dict[str, Any]], Any], *, services: HostServices | None = None
    ) -> Hooks:
        """See `KernelLanguage`: like `record_detached`; a request for a launch's code names its language."""

        def asks(name: str) -> Callable[[dict[str, Any]], Any]:
            return lambda launch: compiled(launch | {OPTION: name})

        return _joined(
            {
                name: part.record_on_device(device, asks(name), **_services_of(part, services))
                for name, part in self._parts.items()
            }
        )

    def carried_category(self, error: BaseException) -> str | None:
        """See `KernelLanguage`."""
        return next(filter(None, (part.carried_category(error) for part in self._parts.values())), None)

    def category_of_kind(self, error: BaseException) -> str | None:
        """See `KernelLanguage`."""
        return next(filter(None, (part.category_of_kind(error) for part in self._parts.values())), None)

    def watch_replays(self, is_read_only: "Callable[[torch.Tensor], bool]") -> None:
        """See `KernelLanguage`: nothing is interpreted."""

    def interpreted(self, source: str, folder: Path) -> InterpretedKernels:
        """See `KernelLanguage`: `interprets` is false."""
        raise UnsupportedDeviceError(f"{self.title} kernels are not interpreted.")

    def load(self, device: "Device", launches: list[Any], binaries: list[Any]) -> LoadedCode:
        """See `KernelLanguage`: each language loads the code of its launches."""
        names = [str(event[4][OPTION]) for event in launches]
        parts = {
            name: self._part(name).load(device, _of(name, names, launches), _of(name, names, binaries))
            for name in dict.fromkeys(names)
        }
        kernels = {name: iter(code.kernels) for name, code in parts.items()}
        return CombinedCode([next(kernels[name]) for name in names], parts)

    def describe(self, value: Any, tensor: DescribeTensor) -> Described:
        """See `KernelLanguage`: by the first language that knows such a value."""
        return self._of_value(value).describe(value, tensor)

    def device_argument(self, described: Described, tensor: MakeTensor) -> Any:
        """See `KernelLanguage`: by the first language that knows such an argument."""
        return self._of_described(described).device_argument(described, tensor)

    def _of_value(self, value: Any) -> KernelLanguage:
        return next((part for part in self._parts.values() if part.describes(value)), [*self._parts.values()][-1])

    def _of_described(self, described: Described) -> KernelLanguage:
        kind = described[0] if described else None
        return next((part for part in self._parts.values() if kind in part.own_kinds), [*self._parts.values()][-1])


def _services_of(part: KernelLanguage, services: HostServices | None) -> dict[str, HostServices]:
    return {"services": services} if part.builds_ahead and services is not None else {}


def _joined(hooks: Mapping[str, Hooks]) -> Hooks:
    """Return the hooks of several languages, by name, as one."""
    monitors = Monitors({name: one.monitor for name, one in hooks.items()})
    tunings = Tunings([one.tuning for one in hooks.values()])
    return Hooks(monitors, tunings, lambda storage: any(one.may_change(storage) for one in hooks.values()))


def _of(name: str, names: Sequence[str], items: Sequence[_Item]) -> list[_Item]:
    """Return the items of one language, in order."""
    return [item for own, item in zip(names, items, strict=True) if own == name]


def _merged(settings: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {name: value for one in settings for name, value in one.items()}


def _flat(paths: Iterable[tuple[Path, ...]]) -> tuple[Path, ...]:
    found: Iterator[Path] = (path for one in paths for path in one)
    return tuple(dict.fromkeys(found))
