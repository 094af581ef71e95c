"""Types of the compiled extension: frames, buffers, sandbox, processes, devices. It links neither CUDA nor torch."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, final

from typing_extensions import Buffer as BufferProtocol

from warpsmith.records.errors import WarpsmithError

MAX_PAYLOAD_BYTES: Final[int]
MAX_FRAME_FDS: Final[int]

class NativeError(WarpsmithError):
    """A system call or a sandbox layer failed: names the layer, the operation, the errno, and its meaning.

    In the layer `device`, a call of the CUDA driver failed: `operation` is its name and `errno` its result (CUresult).
    """

    layer: str
    operation: str
    errno: int

class FrameError(NativeError):
    """The peer sent bytes that are not a frame: wrong magic, length, checksum, sequence or descriptor count."""

class PeerClosed(NativeError):  # noqa: N818  (an event, not a mistake)
    """The peer closed the channel or died."""

class DeadlineExceeded(NativeError):  # noqa: N818  (an event, not a mistake)
    """The wait passed its deadline; `operation` names what was awaited."""

class Frame(NamedTuple):
    kind: int
    payload: bytes
    fds: list[int]

@final
class Channel:
    """One end of a Unix stream socket that carries checked binary frames and descriptors. Owns its descriptor.

    One thread can send while another receives. A hostile peer can cause only FrameError, PeerClosed or
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
    """A memfd mapped into this process. Supports the buffer protocol; read-only if the mapping is."""

    @staticmethod
    def create(name: str, size: int, writable_by_peer: bool = False) -> Buffer:
        """Make a sealed memfd of `size` bytes, mapped writable here; peers can write only if `writable_by_peer`."""

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
        """Close the descriptor. The mapping lives until the last reference is gone (a tensor may point into it)."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

class Bind(NamedTuple):
    source: str
    target: str
    writable: bool = False

@final
class Policy:
    """What a worker can see and use. Every field has a safe default; see docs/threat-model.md.

    Args:
        binds: host paths, read-only unless `writable`; a symbolic link is recreated, not followed. /proc, /tmp,
            /dev/shm and the devices null, full, random and urandom exist without a bind, and zero with
            `shared_memory`.
        exec_paths: programs that the worker can execute (their ELF loader is included). If empty, the worker can start
            no program and no process, only threads.
        environment: the whole environment; TMPDIR is added and points to the scratch.
        scratch_path: scratch for the tier `landlock`, which cannot mount one: an empty directory that the caller makes
            and removes. If empty, a worker of that tier can write nowhere. Unused at the tier `namespaces`.
        scratch_executable: whether libraries can be mapped from the scratch, for a JIT that builds them there.
        shared_memory: whether the worker can create shared memory (memfd_create, anonymous shared mappings,
            /dev/zero), which no rlimit counts. CUDA needs it; without it memory_bytes bounds a worker of no programs.
        dumpable: whether the worker owns its entries under /proc. CUDA names its threads there.
        scratch_bytes, scratch_inodes: size of the tmpfs that is both /tmp and /dev/shm.
        memory_bytes: private writable memory that each process of the worker can add to what it inherited.
        data_bytes: how much of it can be mapped, if more than memory_bytes. Nothing here bounds what is then used: only
            a cgroup does, or who polls.
        address_space_bytes: address space that each process can add; it bounds the page tables of pages that are only
            read. 0 sets no limit: CUDA reserves far more than it uses.
        processes: processes and threads together (without a user namespace, in addition to the machine's tasks).
        file_bytes: size of one file. cpu_seconds: CPU time of one process.
        output_bytes: capacity of stdout and stderr together; writing more fails with EPERM.
        strongest_tier, minimum_tier: spawn tries the tiers from the first down to the second.
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
    data_bytes: int
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
        data_bytes: int = 0,
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
    """One containment layer: whether this machine supports it, what was observed, and how to get it."""

    name: str
    available: bool
    detail: str
    remedy: str

def probe() -> list[Layer]:
    """Try every layer in throw-away children; safe in a process with threads. Takes some tens of milliseconds."""

def achievable_tier() -> str:
    """Return the strongest tier that this machine supports: `namespaces`, `landlock` or `none`."""

class Spawned(NamedTuple):
    """The parent's view of a new worker. `output_fd` is the size-limited memfd of its stdout and stderr.

    `cgroup` names its cgroup, for `Cgroups.remove` once the worker is reaped; empty without one.
    """

    pid: int
    pidfd: int
    output_fd: int
    tier: str
    cgroup: str

class InChild(NamedTuple):
    """The child's view: containment is complete, and `fd` is the only inherited descriptor besides 0, 1 and 2."""

    fd: int
    tier: str

class CgroupEvents(NamedTuple):
    """Counts of the memory controller: how often the limit was reached for good, and the processes killed."""

    limit_reached: int
    killed: int

@final
class Cgroups:
    """A cgroup v2 directory with one cgroup per worker. It is locked while its maker lives; others sweep it afterwards.

    A worker's cgroup bounds the total of its processes: memory (what it inherited, memory_bytes, the scratch and the
    output; no swap; the OOM killer ends all of it) and processes, as far as the two controllers are available.
    """

    @staticmethod
    def open() -> Cgroups:
        """Make the directory in a subtree delegated to this process, or at the top for the host's root.

        The processes of a delegated cgroup are moved into `warpsmith-main` below it, since cgroup v2 allows no
        processes beside children with controllers. Leftovers of dead processes are removed. NativeError names the
        missing condition.
        """

    @property
    def path(self) -> str: ...
    @property
    def controllers(self) -> list[str]:
        """Which of `memory` and `pids` limit the workers."""

    def remove(self, name: str) -> CgroupEvents:
        """Kill the remaining processes of a worker's cgroup, remove it, and return its counts."""

    def close(self) -> None:
        """Remove the directory with its content. Safe to call twice."""

def spawn(policy: Policy, fd: int, cgroups: Cgroups | None = None) -> Spawned | InChild:
    """Fork a contained worker that keeps `fd`. Returns twice. If a layer fails, the parent raises and no child is left.

    With `cgroups` the worker starts in a cgroup of its own.

    The caller must have one thread (else NativeError, errno EDEADLK) and must outlive the worker: workers die with the
    thread that forked them. At the tier `namespaces` the worker is init of a pid namespace: signals that it sends to
    itself have no effect unless it handles them; faults kill it (abort() ends in SIGSEGV).
    """

class Exit(NamedTuple):
    """How a process ended: exactly one of the two fields is not None."""

    code: int | None
    signal: int | None

def kill(pidfd: int) -> None:
    """SIGKILL the worker and everything in its pid namespace or process group. A dead worker is not an error."""

def wait(pidfd: int, timeout_s: float | None = None) -> Exit | None:
    """Reap a child of this process, and kill the rest of its process group; None if the time passed first."""

def denied_system_calls() -> list[tuple[str, int, int]]:
    """Return name, number on this machine and errno of every system call that is denied to workers."""

# --- devices: libcuda.so.1 is opened at the first use; without it these raise NativeError, operation `dlopen` ---

def device_count() -> int:
    """Return the number of GPUs, 0 if the driver sees none. Initialises CUDA: child processes cannot use it then."""

def driver_untouched() -> bool:
    """Whether CUDA is uninitialised in this process, so that its children can use it. Loads nothing."""

@final
class Device:
    """A GPU and its primary context, which torch uses too; retained for the life of the process.

    Every method here and below except `Launch.launch` works on any thread, whatever its current context.
    """

    @staticmethod
    def open(ordinal: int) -> Device:
        """Initialise the driver, retain the context (some 0.2 s the first time) and make it current in this thread."""

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
        """Maximum shared memory per block, in bytes."""

    def use(self) -> None:
        """Make the context current in the calling thread."""

    def free_bytes(self) -> int: ...
    def synchronize(self) -> None:
        """Wait, without the GIL, for all work of the context. Raises if a kernel faulted."""

@final
class DeviceBuffer:
    """Device memory mapped into this process; processes share it by a descriptor.

    Its address is unpredictable, with nothing mapped within 1 GiB before and after it.

    The memory is freed with the last of the object and the tensors made from it; that waits for the context's work
    with the GIL held, as freeing device memory does elsewhere.
    """

    @staticmethod
    def create(device: Device, size: int, shareable: bool = True) -> DeviceBuffer:
        """Allocate `size` bytes, writable here, with a close-on-exec descriptor if `shareable`.

        The content is undefined.
        """

    @staticmethod
    def map(device: Device, fd: int, size: int, writable: bool = False) -> DeviceBuffer:
        """Map `size` bytes of another process's buffer. The caller keeps `fd`, and can close it once this returns.

        A kernel that writes to a mapping that is not `writable` faults, which destroys its process's context.
        """

    @property
    def size(self) -> int:
        """Requested size in bytes; the allocation is rounded up to the device's granularity."""

    @property
    def address(self) -> int:
        """Address in the device's memory as this process sees it."""

    @property
    def writable(self) -> bool: ...
    def fileno(self) -> int:
        """Return the descriptor; NativeError for a mapped buffer and after `close`."""

    def close(self) -> None:
        """Close the descriptor. The memory stays."""

    def fill(self, byte: int) -> None:
        """Set every byte on the legacy default stream and wait for it. NativeError (EACCES) if not writable."""

    def alias(self, writable: bool) -> DeviceBuffer:
        """Map the same memory again, at another address."""

    def protect(self) -> None:
        """Wait for all work of the context; a kernel that writes to this mapping afterwards faults."""

    def dlpack(self, start: int = 0, size: int | None = None) -> object:
        """Return a capsule for torch.from_dlpack: uint8 [size] on this device, starting at byte `start`.

        Without a size it extends to the buffer's end. The tensor keeps the memory alive. ValueError if the range is
        not inside the buffer.
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
        address: address of the tensor in device memory, a multiple of 16.
        element: CUtensorMapDataType.
        item_bytes: bytes per element.
        swizzle: CUtensorMapSwizzle.
        nan_outside: reads outside the tensor return NaN instead of 0.
        shape: 1 to 5 sides in elements, outermost first, like `strides` and `block`.
        block: shape of one access, in elements.

    NativeError if the driver rejects the map.
    """

@final
class Launch:
    """A kernel with all its arguments except the stream, which can be launched any number of times."""

    def launch(self, stream: int) -> None:
        """Call the driver, in the thread's current context (`Device.use`, or torch's); nothing for an empty grid.

        The GIL is held: with a thousand launches queued in the stream, this blocks until one starts.
        """

@final
class Module:
    """A cubin, loaded on a device. Its kernels share its variables."""

    @staticmethod
    def load(device: Device, cubin: bytes) -> Module:
        """Load a cubin; NativeError if it is incomplete or for another architecture."""

    def kernel(self, name: str, shared_bytes: int) -> Kernel:
        """Return a kernel as `Kernel.load` does; NativeError if there is none of that name."""

    def variable(self, name: str) -> object:
        """Return the bytes of a variable, uint8 [size], as a DLPack capsule; NativeError if there is none."""

@final
class Kernel:
    """One kernel of a cubin, loaded on a device. A stream is the value of torch's `cuda_stream`; 0: legacy."""

    @staticmethod
    def load(device: Device, cubin: bytes, name: str, shared_bytes: int) -> Kernel:
        """Load the kernel with `shared_bytes` of dynamic shared memory per block.

        NativeError if the cubin is incomplete, is for another architecture or lacks the kernel, or if it needs more
        shared memory than the device has.
        """

    @property
    def name(self) -> str: ...
    @property
    def registers(self) -> int:
        """Registers per thread."""

    @property
    def local_bytes(self) -> int:
        """Local memory per thread, in bytes: spilled registers and arrays."""

    @property
    def max_threads(self) -> int:
        """Maximum threads per block."""

    def prepare(
        self,
        grid: tuple[int, int, int],
        threads: tuple[int, int, int] | int,
        cluster: tuple[int, int, int] | int,
        cooperative: bool,
        parameters: Sequence[bytes],
    ) -> Launch:
        """Fix all launch arguments except the stream.

        Args:
            grid: blocks of all clusters: the caller multiplies the first side by num_ctas, as Triton's launcher does.
            threads: threads per block, a number if along the first axis alone: 32 times num_warps in Triton.
            cluster: blocks per cluster, each dividing its side of the grid; a single number is the first side.
            parameters: raw bytes of each parameter, copied. NativeError unless their number and sizes match the
                kernel's. Triton adds two pointers of 8 bytes to those of the signature.
        """

    def launch(
        self,
        grid: tuple[int, int, int],
        threads: tuple[int, int, int] | int,
        cluster: tuple[int, int, int] | int,
        cooperative: bool,
        stream: int,
        parameters: Sequence[bytes],
    ) -> None:
        """Prepare and launch once."""

@final
class Gate:
    """Blocks a stream until the host opens it, so that launches queue up behind it.

    A native thread opens it after a timeout, so host code that waits for the stream does not hang. Dropping the object
    opens it and waits until the stream has passed.
    """

    def __init__(self, device: Device) -> None: ...
    def close(self, stream: int, seconds: float = 10.0) -> None:
        """Block later work for at most `seconds` (over 0, up to 3600). EBUSY if it is still closed."""

    def open(self) -> bool:
        """Open the gate. False if it was not closed: never closed, or the timeout came first."""

@final
class Event:
    """A point of a stream."""

    def __init__(self, device: Device) -> None: ...
    def record(self, stream: int) -> None: ...
    def done(self) -> bool:
        """Whether all work before the last record is done; true if nothing was recorded."""

    def synchronize(self) -> None:
        """Wait for the event, without the GIL."""

    def elapsed_ms(self, start: Event) -> float:
        """Return the device's time from `start` to this event. NativeError unless both were recorded and are done."""
