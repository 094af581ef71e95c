"""The interface of a kernel language: what judge, zygotes and workers ask of the language that candidates write in.

What crosses process borders is the same for every language: a launch trace, in whose terms host code is recorded
(`recordings/trace.py`), and the fields of machine code (`COMPILED` messages), which are the language's own. Each method
says which process calls it. A sandboxed worker may be unable to import anything, so `warm_up` imports, in the zygote,
all that the language's other methods need.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    import torch

    from warpsmith.evaluator import _native
    from warpsmith.evaluator.devices.base import Device
    from warpsmith.evaluator.devices.kinds import Role, ZygoteKind

Described = list[Any]
"""An argument of a launch as plain values: `["tensor", ...]`, `["value", 3]`, or a kind of the language's own."""
DescribeTensor = Callable[["torch.Tensor"], Described]
MakeTensor = Callable[[Described], "torch.Tensor"]


class UnsupportedDeviceError(RuntimeError):
    """A language cannot do on this device what it is asked for, as to interpret kernels."""


class LaunchMonitor(Protocol):
    """Sees each launch of host code.

    Attributes:
        launches: how many there were since it was last set to 0.
        on_launch: hears the kernel's name, its arguments and options of each launch, and returns the event that its
            grid is to be written to, as the third item.
    """

    launches: int
    on_launch: Callable[[str, dict[str, Any], dict[str, Any]], list[Any]] | None


class Tuning(Protocol):
    """Chooses configurations of kernels that have several.

    Attributes:
        timed: whether a kernel was timed in this call.
        taken: the configuration of this call, by kernel.
    """

    timed: bool
    taken: dict[str, str]

    @property
    def variants(self) -> int:
        """Of how many configurations a kernel may run with any."""

    def next_call(self, seed: int) -> None:
        """Begin another call of forward."""


class OneConfiguration:
    """The tuning of a language whose kernels have one configuration each."""

    def __init__(self) -> None:
        self.timed = False
        self.taken: dict[str, str] = {}
        self.variants = 1

    def next_call(self, seed: int) -> None:
        """Do nothing: there is nothing to choose."""


@dataclass(frozen=True)
class Hooks:
    """What a candidate's process was given to see launches by."""

    monitor: LaunchMonitor
    tuning: Tuning


class InterpretedKernels(Protocol):
    """The kernels of a source, ready to be interpreted: `kernels[name][grid](**arguments)` runs one."""

    def __getitem__(self, name: str) -> Any:
        """Return a kernel; WireError where the source has none of that name."""

    def argument(self, described: Described, tensor: MakeTensor) -> Any:
        """Return an argument of a kind of the language's own; WireError for one that is none."""


class LoadedKernel(Protocol):
    """A kernel of machine code in this process's context."""

    @property
    def symbol(self) -> str:
        """The kernel's name in its machine code."""

    @property
    def local_bytes(self) -> int:
        """Local memory of a thread."""

    @property
    def has_twin(self) -> bool:
        """Whether there is a fenced twin of it."""

    def prepared(
        self, grid: Sequence[int], values: dict[str, Any], plan: Any = None, *, allocate: Any = None
    ) -> "tuple[_native.Launch, torch.Tensor | None]":
        """Return a launch, and the scratch memory that it needs.

        Args:
            grid: blocks along each axis.
            values: arguments by name.
            plan: a `FencePlan`, for which the twin is launched.
            allocate: returns scratch memory of so many bytes.
        """


class KernelLanguage(ABC):
    """A language that candidates write kernels in.

    Attributes:
        name: in a configuration.
        title: for people.
        kernel_form: what a writer is told to compute in.
        slow_compile_advice: what to do about kernels that take too long to compile; a sentence.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    kernel_form: ClassVar[str]
    slow_compile_advice: ClassVar[str]

    # Judge ---------------------------------------------------------------------------------------------------------

    @abstractmethod
    def version(self) -> str:
        """Return what compiled code depends on besides its source and the chip; the same in every process."""

    def same_code(self, one: Mapping[str, Any], other: Mapping[str, Any], binary: Any) -> bool:
        """Whether a launch compiles to the very code of another one that was compiled to `binary`."""
        return False

    def cannot_form(self, category: str | None, message: str) -> bool:
        """Whether a kernel failed since the language has no form for the shapes; coarser ones are then drawn."""
        return False

    # Zygotes -------------------------------------------------------------------------------------------------------

    def environment(self, *, interpreting: bool) -> dict[str, str]:
        """Return what zygotes and workers need in their environment; `interpreting` for those that interpret."""
        return {}

    def programs(self, arch: int) -> tuple[Path, ...]:
        """Return the programs that a compile worker may execute, for a chip of that number."""
        return ()

    @abstractmethod
    def warm_up(self, kind: "ZygoteKind", roles: "tuple[Role, ...]", arch: int, folder: Path) -> None:
        """Import all that workers of these roles need, and do what the first of them would otherwise pay for.

        Args:
            kind: of the zygote.
            roles: of its workers.
            arch: the chip that is compiled for.
            folder: where it may write.
        """

    # Compile workers -----------------------------------------------------------------------------------------------

    @abstractmethod
    def compile(
        self, source: str, launches: list[dict[str, Any]], folder: Path, arch: int, *, binaries: bool
    ) -> dict[str, Any]:
        """Take the kernels out of a source without executing it, and compile every launch.

        Args:
            source: the candidate's.
            launches: `kernel`, `arguments` and `options` of each.
            folder: where it may write.
            arch: the chip.
            binaries: whether the machine code is wanted.

        Returns:
            The fields of a COMPILED message: `ok`, `category`, `message`, `tf32`, in the order of the launches the
            wanted `binaries`, `lost` (what the machine had no more of, where that kept them from being compiled) and
            `crashed` (whether the compiler was ended by a signal, for which either may be to blame).
        """

    # Candidate workers: recording ------------------------------------------------------------------------------------

    def prepare_recording(self) -> None:  # noqa: B027  (most languages have nothing to prepare)
        """Do what the first candidate would otherwise pay for; called in a zygote."""

    def check_interpreted(self, tensor: "torch.Tensor") -> None:  # noqa: B027  (most interpret every dtype)
        """Raise UnsupportedDtypeError for a tensor that interpreted kernels compute wrongly."""

    def stand_in(self, properties: Any) -> None:  # noqa: B027  (not every language has a runtime of its own)
        """Let the language's runtime find a device of these properties in a process that compiles nothing."""

    @abstractmethod
    def record_interpreted(
        self, report: Callable[[dict[str, Any]], None], is_read_only: "Callable[[torch.Tensor], bool]"
    ) -> Hooks:
        """Interpret what host code launches.

        Args:
            report: to be called with each new launch before it runs.
            is_read_only: whether a tensor lies in memory of the judge.
        """

    @abstractmethod
    def record_detached(self, *, has_device: bool) -> Hooks:
        """Write down what host code launches, without running it; `has_device` where replays run on a device."""

    @abstractmethod
    def record_on_device(self, device: "Device", compiled: Callable[[dict[str, Any]], Any]) -> Hooks:
        """Run on a device what host code launches; `compiled` asks the judge for the fields of a launch's code."""

    @abstractmethod
    def describe(self, value: Any, tensor: DescribeTensor) -> Described:
        """Describe an argument that is neither a tensor nor a tuple; `tensor` describes a tensor in it."""

    @abstractmethod
    def category_told(self, error: BaseException) -> str | None:
        """Return the error category that an error of the language carries; None for others."""

    @abstractmethod
    def category_of_kind(self, error: BaseException) -> str | None:
        """Return the error category of an error by its type; None for what is none of the language's."""

    # Candidate workers: playing --------------------------------------------------------------------------------------

    @abstractmethod
    def watch_replays(self, is_read_only: "Callable[[torch.Tensor], bool]") -> None:
        """See what interpreted kernels access from now on; called once in a process."""

    @abstractmethod
    def interpreted(self, source: str, folder: Path) -> InterpretedKernels:
        """Take the kernels out of a source without executing its host code; `folder` is where it may write."""

    @abstractmethod
    def load(self, device: "Device", binaries: list[Any]) -> Sequence[LoadedKernel]:
        """Load the machine code of each launch, given as its fields."""

    @abstractmethod
    def device_argument(self, described: Described, tensor: MakeTensor) -> Any:
        """Return an argument of a kind of the language's own for a launch of machine code."""
