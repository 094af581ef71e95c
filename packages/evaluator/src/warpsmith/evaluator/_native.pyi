"""Types of the compiled extension: frames, buffers, sandbox, processes, devices. It links neither CUDA nor torch."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, final

from typing_extensions import Buffer as BufferProtocol

from warpsmith.records.errors import WarpsmithError

MAX_PAYLOAD_BYTES: Final[int]
MAX_FRAME_FDS: Final[int]

class NativeError(WarpsmithError):
    """A system call or a sandbox layer failed: which layer, which operation, which errno, and what it means.

    In the layer `device`, a call of the CUDA driver failed: `operation` is its name and `errno` its result (CUresult).
    """

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
            /tmp, /dev/shm and the devices null, full, random and urandom are there without a bind, and zero with
            `shared_memory`.
        exec_paths: the programs that may be executed (their ELF loader comes by itself). Empty: the
            worker can start no program and no process, only threads.
        environment: the whole environment; TMPDIR is added and points to the scratch.
        scratch_path: the scratch of the tier `landlock`, which can mount none: an empty directory that the caller
            makes and removes. Empty: a worker of that tier can write nowhere. Unused at the tier `namespaces`.
        scratch_executable: whether libraries may be mapped from the scratch (a JIT that builds them there needs it).
        shared_memory: whether the worker may make shared memory of its own (memfd_create, anonymous shared mappings,
            /dev/zero), which no rlimit counts. CUDA needs it; without it memory_bytes bounds a worker of no programs.
        dumpable: whether the worker's entries under /proc belong to it. CUDA names its threads there.
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
    dumpable: bool
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
        dumpable: bool = False,
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

# --- devices: libcuda.so.1 is opened at the first use; without it these raise NativeError, operation `dlopen` ---

def device_count() -> int:
    """Return the number of GPUs, 0 where the driver sees none. Initialises CUDA: children cannot use it then."""

def driver_untouched() -> bool:
    """Whether nothing has initialised CUDA in this process, so that its children may use it. Loads nothing."""

@final
class Device:
    """A GPU and its primary context, which torch uses too; retained for the life of the process.

    Every method here and below but `Launch.launch` works on any thread, whatever context is current there.
    """

    @staticmethod
    def open(ordinal: int) -> Device:
        """Start the driver, retain the context (some 0.2 s the first time) and make it the calling thread's."""

    @property
    def ordinal(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def arch(self) -> int:
        """The compute capability without its point: 90."""

    @property
    def total_bytes(self) -> int: ...
    @property
    def l2_bytes(self) -> int: ...
    @property
    def multiprocessors(self) -> int: ...
    @property
    def uuid(self) -> str:
        """As nvidia-smi writes it: GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx."""

    @property
    def pageable_memory_access(self) -> bool:
        """Whether kernels can read the ordinary host memory of their own process."""

    @property
    def granularity(self) -> int:
        """The unit of a DeviceBuffer's memory, in bytes."""

    @property
    def block_shared_bytes(self) -> int:
        """The most shared memory that one block can have, in bytes."""

    def use(self) -> None:
        """Make the context the calling thread's."""

    def free_bytes(self) -> int: ...
    def synchronize(self) -> None:
        """Wait, without the GIL, for all work of the context. Raises the fault of a kernel, if there was one."""

@final
class DeviceBuffer:
    """Device memory mapped into this process; processes share it by a descriptor.

    It lies at an address that nobody can foresee, with nothing mapped within 1 GiB before and behind it.

    The memory goes with the last of the object and the tensors made from it; that waits for the context's work, with
    the GIL held, as freeing device memory does elsewhere.
    """

    @staticmethod
    def create(device: Device, size: int, shareable: bool = True) -> DeviceBuffer:
        """Allocate `size` bytes, writable here, with a close-on-exec descriptor unless they are not `shareable`.

        What they hold is not defined.
        """

    @staticmethod
    def map(device: Device, fd: int, size: int, writable: bool = False) -> DeviceBuffer:
        """Map `size` bytes of another process's buffer. `fd` stays the caller's, who may close it once this returns.

        A kernel that writes to a mapping that is not `writable` faults, which ends its process's context.
        """

    @property
    def size(self) -> int:
        """In bytes, as asked for: the memory itself is rounded up to the device's granularity."""

    @property
    def address(self) -> int:
        """In the device's memory as this process sees it."""

    @property
    def writable(self) -> bool: ...
    def fileno(self) -> int:
        """Return the descriptor; NativeError for a mapped buffer and after `close`."""

    def close(self) -> None:
        """Close the descriptor. The memory stays."""

    def fill(self, byte: int) -> None:
        """Set every byte on the legacy default stream and wait for it. NativeError (EACCES) where not writable."""

    def alias(self, writable: bool) -> DeviceBuffer:
        """Map the same memory once more, at another address."""

    def protect(self) -> None:
        """Wait for all work of the context; a kernel that writes to this mapping afterwards faults."""

    def dlpack(self, start: int = 0, size: int | None = None) -> object:
        """Return a capsule for torch.from_dlpack: uint8 [size] on this device, from byte `start` of the buffer on.

        Its storage ends where it does; without a size it reaches to the buffer's end. It keeps the memory.
        ValueError where it does not lie in the buffer.
        """

def encode_tensor_map(
    device: Device,
    address: int,
    element: int,
    item_bytes: int,
    swizzle: int,
    nan_outside: bool,
    shape: Sequence[int],
    strides: Sequence[int],
    block: Sequence[int],
) -> bytes:
    """Return the 128 bytes that a kernel takes for a tensor descriptor (`cuTensorMapEncodeTiled`).

    Args:
        address: of the tensor in the device's memory, a multiple of 16.
        element: CUtensorMapDataType.
        item_bytes: of an element.
        swizzle: CUtensorMapSwizzle.
        nan_outside: what lies outside of the tensor reads as NaN, not as 0.
        shape: of the tensor, 1 to 5 sides in elements, the outermost first, like `strides` and `block`.
        block: what one access moves.

    NativeError where the driver makes no such map.
    """

@final
class Launch:
    """A kernel with all its arguments but the stream, ready to be launched any number of times."""

    def launch(self, stream: int) -> None:
        """Call the driver, in the thread's current context (`Device.use`, or torch's); nothing for an empty grid.

        The GIL is held: where a thousand launches wait in the stream this blocks until one has begun.
        """

@final
class Kernel:
    """One kernel of a cubin, loaded on a device. A stream is the number that torch's `cuda_stream` is; 0: legacy."""

    @staticmethod
    def load(device: Device, cubin: bytes, name: str, shared_bytes: int) -> Kernel:
        """Load the kernel with `shared_bytes` of dynamic shared memory a block.

        NativeError for what is no whole cubin, is of another architecture, has no such kernel, or asks for more
        shared memory than the device gives.
        """

    @property
    def name(self) -> str: ...
    @property
    def registers(self) -> int:
        """Of each thread."""

    @property
    def local_bytes(self) -> int:
        """Local memory of each thread: spilled registers and arrays."""

    @property
    def max_threads(self) -> int:
        """In one block."""

    def prepare(
        self,
        grid: tuple[int, int, int],
        threads: int,
        cluster: tuple[int, int, int] | int,
        cooperative: bool,
        parameters: Sequence[bytes],
    ) -> Launch:
        """Fix all but the stream.

        Args:
            grid: blocks, those of all clusters: Triton's launcher multiplies its first side by num_ctas, here the
                caller does.
            threads: in a block: 32 times num_warps.
            cluster: blocks in a cluster, each dividing its side of the grid; a number is that of the first side.
            parameters: the raw bytes of each parameter, copied. NativeError unless their number and sizes are the
                kernel's. Triton adds two pointers of 8 bytes to those of the signature.
        """

    def launch(
        self,
        grid: tuple[int, int, int],
        threads: int,
        cluster: tuple[int, int, int] | int,
        cooperative: bool,
        stream: int,
        parameters: Sequence[bytes],
    ) -> None:
        """Prepare and launch once."""

@final
class Gate:
    """Holds one stream back until the host opens it, so that launches queue up behind it.

    A native thread opens it when the time is up, so host code that waits for the stream ends. Dropping the object
    opens it and waits until the stream has passed.
    """

    def __init__(self, device: Device) -> None: ...
    def close(self, stream: int, seconds: float = 10.0) -> None:
        """Hold what is enqueued from now on for at most `seconds` (over 0, up to 3600). EBUSY where still closed."""

    def open(self) -> bool:
        """Let the stream go. False where it was not closed: the watchdog was first, or nobody had closed it."""

@final
class Event:
    """A point of a stream."""

    def __init__(self, device: Device) -> None: ...
    def record(self, stream: int) -> None: ...
    def done(self) -> bool:
        """Whether all before the last record is done; true where nothing was recorded."""

    def synchronize(self) -> None:
        """Wait until it is done, without the GIL."""

    def elapsed_ms(self, start: Event) -> float:
        """Return the device's time from `start` to this. NativeError unless both were recorded and are done."""
