"""Types of the compiled extension: frames, buffers, sandbox and process handles. It links neither CUDA nor torch."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, final

from typing_extensions import Buffer as BufferProtocol

from warpsmith.records.errors import WarpsmithError

MAX_PAYLOAD_BYTES: Final[int]
MAX_FRAME_FDS: Final[int]

class NativeError(WarpsmithError):
    """A system call or a sandbox layer failed: which layer, which operation, which errno, and what it means."""

    layer: str
    operation: str
    errno: int

class FrameError(NativeError):
    """The peer sent bytes that are no frame: wrong magic, length, checksum, sequence or descriptor count."""

class PeerClosed(NativeError):  # noqa: N818  (what happened, not a mistake)
    """The peer closed the channel or died."""

class DeadlineExceeded(NativeError):  # noqa: N818  (what happened, not a mistake)
    """The wait passed its deadline; `operation` names what was awaited."""

class Frame(NamedTuple):
    kind: int
    payload: bytes
    fds: list[int]

@final
class Channel:
    """One end of a Unix stream socket that carries checked binary frames and descriptors. Owns its descriptor.

    One thread may send while another receives. A hostile peer can cause nothing but FrameError, PeerClosed or
    DeadlineExceeded. After a FrameError the channel receives no more.
    """

    def __init__(self, fd: int) -> None: ...
    @staticmethod
    def pair() -> tuple[Channel, int]:
        """Return our end and the raw descriptor of the peer's end (close-on-exec; the caller closes it)."""

    def send(
        self, kind: int, payload: BufferProtocol, fds: Sequence[int] = (), timeout_s: float | None = None
    ) -> None: ...
    def recv(self, timeout_s: float | None = None) -> Frame: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...

@final
class Buffer:
    """A memfd mapped into this process. Supports the buffer protocol; read-only where the mapping is."""

    @staticmethod
    def create(name: str, size: int, writable_by_peer: bool = False) -> Buffer:
        """Make a sealed memfd of `size` bytes, mapped writable here; peers may write only if `writable_by_peer`."""

    @staticmethod
    def map(fd: int, size: int, writable: bool = False) -> Buffer:
        """Map a received descriptor after checking its seals and size; duplicates the descriptor."""

    @property
    def size(self) -> int: ...
    @property
    def address(self) -> int: ...
    @property
    def writable(self) -> bool: ...
    def fileno(self) -> int: ...
    def fill(self, byte: int) -> None: ...
    def close(self) -> None:
        """Close the descriptor. The mapping lives on until the last reference goes (a tensor may point into it)."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

class Bind(NamedTuple):
    source: str
    target: str
    writable: bool = False

@final
class Policy:
    """What a worker may see and use. Every field has a safe default; see docs/threat-model.md.

    Args:
        binds: host paths, each seen read-only unless `writable`; a symbolic link is made anew, not followed. /proc,
            /tmp, /dev/shm and the devices null, zero, full, random and urandom are there without a bind.
        exec_paths: the programs that may be executed (their ELF loader comes by itself). Empty: the
            worker can start no program and no process, only threads.
        environment: the whole environment; TMPDIR is added and points to the scratch.
        scratch_path: the scratch of the tier `landlock`, which can mount none: an empty directory that the caller
            makes and removes. Empty: a worker of that tier can write nowhere. Unused at the tier `namespaces`.
        scratch_executable: whether libraries may be mapped from the scratch (a JIT that builds them there needs it).
        shared_memory: whether the worker may make shared memory of its own (memfd_create, anonymous shared mappings,
            /dev/zero), which no rlimit counts. CUDA needs it; without it memory_bytes bounds a worker of no programs.
        scratch_bytes, scratch_inodes: the size of the tmpfs that is both /tmp and /dev/shm.
        memory_bytes: private writable memory that each process of the worker may add to what it inherited.
        address_space_bytes: address space that each process may add; it bounds the page tables of pages that are only
            read. 0 sets no limit: CUDA reserves far more than it uses.
        processes: processes and threads together (without a user namespace, as many more as the machine has tasks).
        file_bytes: the size of one file. cpu_seconds: of one process.
        output_bytes: what stdout and stderr hold together; writing more fails with EPERM.
        strongest_tier, minimum_tier: spawn tries the tiers from the first down to the second, and no further.
    """

    binds: list[Bind]
    exec_paths: list[str]
    environment: dict[str, str]
    scratch_path: str
    scratch_executable: bool
    shared_memory: bool
    scratch_bytes: int
    scratch_inodes: int
    memory_bytes: int
    address_space_bytes: int
    processes: int
    open_files: int
    file_bytes: int
    cpu_seconds: int
    output_bytes: int
    strongest_tier: str
    minimum_tier: str
    def __init__(
        self,
        *,
        binds: Sequence[Bind | tuple[str, str, bool]] = (),
        exec_paths: Sequence[str] = (),
        environment: Mapping[str, str] = ...,
        scratch_path: str = "",
        scratch_executable: bool = False,
        shared_memory: bool = False,
        scratch_bytes: int = ...,
        scratch_inodes: int = ...,
        memory_bytes: int = ...,
        address_space_bytes: int = 0,
        processes: int = ...,
        open_files: int = ...,
        file_bytes: int = ...,
        cpu_seconds: int = ...,
        output_bytes: int = ...,
        strongest_tier: str = "namespaces",
        minimum_tier: str = "namespaces",
    ) -> None: ...

class Layer(NamedTuple):
    """One layer of containment on this machine: whether it can be had, what was seen, and how to get it."""

    name: str
    available: bool
    detail: str
    remedy: str

def probe() -> list[Layer]:
    """Try every layer in throw-away children; safe in a process with threads. Takes some tens of milliseconds."""

def achievable_tier() -> str:
    """Return the strongest tier this machine gives: `namespaces`, `landlock` or `none`."""

class Spawned(NamedTuple):
    """The parent's view of a new worker. `output_fd` is the memfd that takes its stdout and stderr, capped.

    `cgroup` is the name of its cgroup, to be given to `Cgroups.remove` once the worker is reaped; empty without one.
    """

    pid: int
    pidfd: int
    output_fd: int
    tier: str
    cgroup: str

class InChild(NamedTuple):
    """The child's view: containment is complete, and `fd` is the only inherited descriptor but 0, 1 and 2."""

    fd: int
    tier: str

class CgroupEvents(NamedTuple):
    """What the memory controller counted: how often the limit was reached for good, and the processes killed."""

    limit_reached: int
    killed: int

@final
class Cgroups:
    """A directory of cgroup v2 that holds one cgroup a worker, locked while its maker lives and swept by others then.

    A worker's cgroup bounds what all its processes hold together: memory (what it inherited, memory_bytes, the scratch
    and the output; no swap; one kill takes all of it) and processes, with those of the two controllers that there are.
    """

    @staticmethod
    def open() -> Cgroups:
        """Make the directory where a subtree is delegated to this process, or at the top for the host's root.

        The processes of a delegated cgroup are moved into `warpsmith-main` below it, since cgroup v2 allows no
        processes beside children with controllers. Leftovers of dead processes are removed. NativeError with the
        condition that is missing.
        """

    @property
    def path(self) -> str: ...
    @property
    def controllers(self) -> list[str]:
        """Those of `memory` and `pids` that limit the workers."""

    def remove(self, name: str) -> CgroupEvents:
        """Kill what is left in a worker's cgroup, remove it and return what it counted."""

    def close(self) -> None:
        """Remove the directory with all that is in it. Safe to call twice."""

def spawn(policy: Policy, fd: int, cgroups: Cgroups | None = None) -> Spawned | InChild:
    """Fork a contained worker that keeps `fd`. Returns twice. A failed layer raises in the parent; no child is left.

    Where `cgroups` are given the worker begins in one of its own.

    The caller must have one thread (else NativeError, errno EDEADLK) and must live as long as the worker: workers die
    with the thread that made them. At the tier `namespaces` the worker is init of a pid namespace: signals that it
    sends to itself have no effect, save those it handles; faults kill it (abort() ends in SIGSEGV).
    """

class Exit(NamedTuple):
    """How a process ended: exactly one of the two is not None."""

    code: int | None
    signal: int | None

def kill(pidfd: int) -> None:
    """SIGKILL the worker and everything in its pid namespace or process group. One that is dead is no error."""

def wait(pidfd: int, timeout_s: float | None = None) -> Exit | None:
    """Reap a child of this process, and kill what is left of its process group; None when the time passed first."""

def denied_system_calls() -> list[tuple[str, int, int]]:
    """Return name, number on this machine and errno of every call that no worker may make."""
