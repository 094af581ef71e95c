"""The interface of a kernel language, for judge, zygotes and workers.

Processes exchange the same data for every language: traces of host code (`recordings/recorder.py`), and the fields of
machine code (`COMPILED` messages), whose contents are the language's own. The sections below say which process calls a
method. A sandboxed worker cannot always import, so `warm_up` imports in the zygote all that other methods need.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.languages.chips import Chip

if TYPE_CHECKING:
    import torch

    from warpsmith.evaluator import _native
    from warpsmith.evaluator.config import EvaluatorConfig
    from warpsmith.evaluator.devices.base import Device
    from warpsmith.evaluator.devices.kinds import Role, ZygoteKind
    from warpsmith.evaluator.ipc import codec

Described = list[Any]
"""A launch argument as plain values: `["tensor", ...]`, `["value", 3]`, or a kind of the language's own."""
DescribeTensor = Callable[["torch.Tensor"], Described]
MakeTensor = Callable[[Described], "torch.Tensor"]
RequestBuild = Callable[[dict[str, Any]], "codec.Fields"]
OnLaunch = Callable[[str, dict[str, Any], dict[str, Any]], list[Any]]
"""Called for each launch with the kernel's name, arguments and options; see `LaunchMonitor`."""


class UnsupportedDeviceError(RuntimeError):
    """A language cannot do something on this device, for example interpret kernels."""


class LaunchMonitor(Protocol):
    """Sees each launch of host code.

    Attributes:
        launches: number of launches since it was last set to 0.
        on_launch: called for each launch with the kernel's name, arguments and options; returns the event whose third
            item is to be set to the grid.
    """

    launches: int
    on_launch: OnLaunch | None


class Tuning(Protocol):
    """Chooses configurations of autotuned kernels.

    Attributes:
        timed: whether a kernel was timed in this call.
        taken: the configuration used in this call, by kernel.
    """

    timed: bool
    taken: dict[str, str]

    @property
    def variants(self) -> int:
        """The number of configurations that a kernel can run with."""

    def next_call(self, seed: int) -> None:
        """Begin the next call of forward."""


class OneConfiguration:
    """The tuning of a language whose kernels have one configuration each."""

    def __init__(self) -> None:
        self.timed = False
        self.taken: dict[str, str] = {}
        self.variants = 1

    def next_call(self, seed: int) -> None:
        """Do nothing: there is nothing to choose."""


def _never(storage: "torch.UntypedStorage") -> bool:
    return False


@dataclass(frozen=True)
class Hooks:
    """Through which a candidate's process observes launches and tuning.

    Attributes:
        monitor: sees each launch.
        tuning: chooses configurations.
        may_change: whether host code can write to memory in ways that nothing here sees.
    """

    monitor: LaunchMonitor
    tuning: Tuning
    may_change: Callable[["torch.UntypedStorage"], bool] = _never


@dataclass(frozen=True)
class HostServices:
    """What a language whose host code is compiled too (`builds_ahead`) gets of a candidate's process.

    Attributes:
        build: sends the judge the fields of a BUILD message, and returns those of its answer.
        streams: the process's streams and events, which note work that is never waited for
            (`workers.fake_cuda.Streams`).
    """

    build: RequestBuild
    streams: Any


class MemoryTraffic(Protocol):
    """Counts what interpreted kernels load and store.

    Attributes:
        bytes_moved: bytes of all loads and stores of all programs since it was last set to 0, without masked lanes.
            Atomic operations count twice. There is no cache: what is loaded again counts again.
    """

    bytes_moved: int


class InterpretedKernels(Protocol):
    """The kernels of a source, ready to be interpreted: `kernels[name][grid](**arguments)` runs one."""

    def __getitem__(self, name: str) -> Any:
        """Return a kernel; WireError if the source has none of that name."""

    def argument(self, described: Described, tensor: MakeTensor) -> Any:
        """Return an argument of the language's own kinds; WireError for any other."""


class LoadedKernel(Protocol):
    """A kernel of machine code in this process's context."""

    @property
    def symbol(self) -> str:
        """The kernel's name in its machine code."""

    @property
    def local_bytes(self) -> int:
        """Local memory of a thread, in bytes."""

    @property
    def has_twin(self) -> bool:
        """Whether it has a fenced twin."""

    def prepared(
        self, grid: Sequence[int], values: dict[str, Any], plan: Any = None, *, allocate: Any = None
    ) -> "tuple[_native.Launch, torch.Tensor | None]":
        """Return a launch, and the scratch memory that it needs.

        Args:
            grid: blocks along each axis.
            values: arguments by name.
            plan: a `FencePlan`, to launch the twin; None to launch the kernel itself.
            allocate: returns scratch memory of a given size in bytes.
        """


class LoadedCode:
    """The code of a recording's launches in this process's context.

    Attributes:
        kernels: the kernel of each launch, in order.
        variables: memory of the modules that kernels or the host can write, uint8 [bytes] each. The player writes back
            what it held after loading before each call.
    """

    kernels: Sequence[LoadedKernel]
    variables: Sequence["torch.Tensor"] = ()

    def targets(self, options: dict[str, Any]) -> list["torch.Tensor"]:
        """Return where a copy to a variable writes, uint8 [bytes] each; WireError if there is no such place."""
        raise WireError("A recording copies to a variable; the language has none.")


@runtime_checkable
class HoldsTensors(Protocol):
    """An argument of a launch as bytes, with tensors whose memory the kernel can reach."""

    @property
    def tensors(self) -> Iterable["torch.Tensor"]:
        """The tensors."""

    def packed(self) -> bytes:
        """Return the bytes that the kernel gets."""


class KernelLanguage(ABC):
    """A language that candidates write kernels in.

    Attributes:
        name: its name in a configuration.
        title: its name in messages.
        kernel_form: what messages call a kernel, for example "@triton.jit kernels".
        slow_compile_advice: advice on kernels that take too long to compile; a sentence.
        compilation_category: the error category of a compiler that crashed.
        interprets: whether kernels are interpreted on a device that interprets; otherwise a verdict there says only
            whether they compile.
        builds_ahead: whether host code is compiled too, so that a candidate's process asks for its builds before it
            launches from them.
        compiles_for_amd: whether it has a compiler for AMD's chips.
        probe: a correct candidate that adds two tensors, for servers that check their devices; empty if there is none.
        copy_to_variable: the name of a launch event that copies to a variable of a module instead; empty if none does.
        own_kinds: kinds of described arguments that no other language has.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    kernel_form: ClassVar[str]
    slow_compile_advice: ClassVar[str]
    compilation_category: ClassVar[str] = "unknown"
    interprets: ClassVar[bool] = True
    builds_ahead: ClassVar[bool] = False
    compiles_for_amd: ClassVar[bool] = False
    copy_to_variable: ClassVar[str] = ""
    own_kinds: ClassVar[frozenset[str]] = frozenset()
    probe: ClassVar[str] = ""

    # Callers -------------------------------------------------------------------------------------------------------

    @property
    def parts(self) -> "Mapping[str, KernelLanguage]":
        """The languages of a candidate's kernels by name; several where it can combine them (`languages.combined`)."""
        return {self.name: self}

    def check(self, config: "EvaluatorConfig") -> None:  # noqa: B027  (most need nothing of the machine)
        """Raise a typed error if this machine or configuration cannot judge the language, before a judge starts."""

    # Judge ---------------------------------------------------------------------------------------------------------

    def is_in(self, source: str) -> bool | None:
        """Whether a source uses the language, by its text alone; None if the text does not tell."""
        return None

    @abstractmethod
    def version(self) -> str:
        """Return what compiled code depends on besides source and chip; the same in every process."""

    def launches_of(self, events: list[Any]) -> list[dict[str, Any]]:
        """Return what to compile for each launch in a trace: `kernel`, `arguments` and `options`.

        Raises:
            WireError: the trace, which a candidate's process wrote, has another form.
        """
        from warpsmith.evaluator.recordings.launch_signatures import launches_of

        return launches_of(events)

    def build_name(self, text: str) -> str:
        """Return the name by which launches refer to a build; WireError if `text` is none, or the language has none."""
        raise WireError("a build is requested; the language has none.")

    def check_launch(self, launch: dict[str, Any], binary: Any) -> None:  # noqa: B027  (only if builds_ahead)
        """Raise WireError if a launch is not from the build that it names, whose compiled fields are `binary`."""

    def resources_of(self, launch: Mapping[str, Any], binary: Any) -> dict[str, Any]:
        """Return what a launch's kernel uses, if compilations do not report it (`builds_ahead`); empty if unknown.

        Fields as of `judge.kernel_figures`, which takes those that a launch chooses from its event.
        """
        return {}

    def same_code(self, one: Mapping[str, Any], other: Mapping[str, Any], binary: Any) -> bool:
        """Whether launch `other` compiles to exactly the code `binary` of launch `one`."""
        return False

    def cannot_form(self, category: str | None, message: str) -> bool:
        """Whether a kernel failed because the language has no block for these shapes; coarser shapes are then drawn."""
        return False

    def autotuner_skips(self, category: str | None, message: str) -> bool:
        """Whether the language's own autotuner continues with other configurations when one fails in this way."""
        return False

    # Zygotes -------------------------------------------------------------------------------------------------------

    def environment(self, *, interpreting: bool) -> dict[str, str]:
        """Return environment variables for zygotes and workers; `interpreting`: for those that interpret kernels."""
        return {}

    def programs(self, arch: Chip) -> tuple[Path, ...]:
        """Return the programs that a compile worker can execute to compile for chip `arch`."""
        return ()

    def folders(self) -> tuple[Path, ...]:
        """Return the folders and files that a compile worker can read besides Python's and the system's libraries."""
        return ()

    @abstractmethod
    def warm_up(self, kind: "ZygoteKind", roles: "tuple[Role, ...]", arch: Chip, folder: Path) -> None:
        """Import all that workers of these roles need, and do one-time work that the first would otherwise pay for.

        Args:
            kind: the zygote's kind.
            roles: its workers' roles.
            arch: the chip to compile for.
            folder: a writable folder.
        """

    # Compile workers -----------------------------------------------------------------------------------------------

    @abstractmethod
    def compile(
        self, source: str, launches: list[dict[str, Any]], folder: Path, arch: Chip, *, binaries: bool
    ) -> dict[str, Any]:
        """Extract the kernels from a source without executing it, and compile every launch.

        Args:
            source: the candidate's source; the text of a build if `builds_ahead`.
            launches: `kernel`, `arguments` and `options` of each.
            folder: a writable folder.
            arch: the chip to compile for.
            binaries: whether to return the machine code.

        Returns:
            The fields of a COMPILED message: `ok`, `category`, `message`, `tf32`, `binaries` (in the order of the
            launches, if requested), `resources` (what each launch's kernel uses: the fields of `judge.kernel_figures`;
            empty if the language does not tell), `lost` (the resource that the machine ran out of; empty if none) and
            `crashed` (whether a signal ended the compiler, which can be the kernels' fault or the machine's).
        """

    # Candidate workers: recording ------------------------------------------------------------------------------------

    def prepare_recording(self) -> None:  # noqa: B027  (most languages have nothing to prepare)
        """Do one-time work that the first candidate would otherwise pay for; called in a zygote."""

    def check_interpreted(self, tensor: "torch.Tensor") -> None:  # noqa: B027  (most interpret every dtype)
        """Raise UnsupportedDtypeError for a tensor whose dtype the interpreter does not compute correctly."""

    def stand_in(self, properties: Any) -> None:  # noqa: B027  (not every language has a runtime of its own)
        """Let the language's runtime find a device with these properties in a process that compiles nothing."""

    @abstractmethod
    def record_interpreted(
        self, report: Callable[[dict[str, Any]], None], is_read_only: "Callable[[torch.Tensor], bool]"
    ) -> Hooks:
        """Interpret the kernels that host code launches.

        Args:
            report: called with each new launch before it runs.
            is_read_only: returns whether a tensor lies in read-only memory of the judge.
        """

    @abstractmethod
    def record_detached(self, *, has_device: bool, services: HostServices | None = None) -> Hooks:
        """Record what host code launches, without running it.

        Args:
            has_device: whether replays run on a device.
            services: passed only if `builds_ahead`.
        """

    @abstractmethod
    def record_on_device(
        self, device: "Device", compiled: Callable[[dict[str, Any]], Any], *, services: HostServices | None = None
    ) -> Hooks:
        """Run on a device what host code launches.

        Args:
            device: that it runs on.
            compiled: gets the fields of a launch's code from the judge.
            services: passed only if `builds_ahead`.
        """

    @abstractmethod
    def describe(self, value: Any, tensor: DescribeTensor) -> Described:
        """Describe an argument that is neither a tensor nor a tuple; `tensor` describes a tensor inside it."""

    def describes(self, value: Any) -> bool:
        """Whether a launch of this language can have such an argument; exact only where `own_kinds` is not empty."""
        return True

    @abstractmethod
    def carried_category(self, error: BaseException) -> str | None:
        """Return the error category that an error of the language carries; None for others."""

    @abstractmethod
    def category_of_kind(self, error: BaseException) -> str | None:
        """Return the error category for the type of an error; None if it is not one of the language's errors."""

    # Candidate workers: playing --------------------------------------------------------------------------------------

    @abstractmethod
    def watch_replays(self, is_read_only: "Callable[[torch.Tensor], bool]") -> MemoryTraffic | None:
        """Watch the memory accesses of interpreted kernels from now on; called once in a process.

        Returns:
            What counts their bytes; None if the language does not.
        """

    @abstractmethod
    def interpreted(self, source: str, folder: Path) -> InterpretedKernels:
        """Extract the kernels from a source without executing its host code; `folder` is writable."""

    @abstractmethod
    def load(self, device: "Device", launches: list[Any], binaries: list[Any]) -> LoadedCode:
        """Load the machine code of each launch.

        Args:
            device: that they run on.
            launches: the events of the launches, without copies to variables.
            binaries: the fields of each launch's code.
        """

    @abstractmethod
    def device_argument(self, described: Described, tensor: MakeTensor) -> Any:
        """Return an argument of the language's own kinds for a launch of machine code."""
