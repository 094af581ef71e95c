"""The life of a worker after the fork: contained already, it serves one role over its one channel and ends."""

import os
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from warpsmith.evaluator import _native, diagnostics, precision, protocol
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.exhaustion import is_exhaustion, used_much_memory
from warpsmith.evaluator.memory import DeviceMemory, HostMemory, memory_of
from warpsmith.evaluator.protocol import Kind
from warpsmith.evaluator.sandbox import OFF_DEVICE, Role

if TYPE_CHECKING:
    from warpsmith.evaluator.memory import Shared

TRACE_LINES: Final = 12
EXHAUSTED_CODE: Final = 75
"""Exit code of a worker that ended for want of what the machine had no more of. Of a candidate's, it is a hint."""
MAX_MESSAGE: Final = 4000


def run(child: _native.InChild, role: Role, scratch: Path | None, config: EvaluatorConfig) -> NoReturn:
    """Serve `role` until the judge closes the channel or the process dies; never returns to the zygote's code."""
    code = 1
    try:
        _serve(child, role, scratch or Path("/tmp"), config)
        code = 0
    except _native.PeerClosed:
        code = 0
    except BaseException as error:  # noqa: BLE001  (whatever it is, it must not unwind into the zygote's loop)
        diagnostics.tell_error(error)
        code = EXHAUSTED_CODE if is_exhaustion(error) else 1
    finally:
        os._exit(code)


def _serve(child: _native.InChild, role: Role, scratch: Path, config: EvaluatorConfig) -> None:
    tempfile.tempdir = str(scratch)
    os.environ.update({"TMPDIR": str(scratch), "HOME": str(scratch), "TRITON_CACHE_DIR": str(scratch / "triton")})
    os.chdir(scratch)
    channel = _native.Channel(child.fd)
    kind = memory_of(config.device if role not in OFF_DEVICE else "cpu")
    _set_precision(role, config)
    protocol.send(channel, Kind.READY, {"tier": child.tier})
    match role:
        case "reference":
            from warpsmith.evaluator import reference_worker

            reference_worker.serve(channel, scratch, kind, config)
        case "candidate":
            from warpsmith.evaluator import candidate_worker

            candidate_worker.serve(channel, scratch, kind)
        case "host":
            from warpsmith.evaluator import candidate_worker

            candidate_worker.serve(channel, scratch, kind, detached=True)
        case "compile":
            from warpsmith.evaluator import compile_worker

            compile_worker.serve(channel, scratch, config.target_arch)


def _set_precision(role: Role, config: EvaluatorConfig) -> None:
    """Let torch's own products take the same precision in every worker that may run some, the timed ones included."""
    if role != "compile":
        precision.apply(config.precision)


def failure(stage: str, error: BaseException, source_path: Path) -> dict[str, Any]:
    """Return the fields of a FAILED message: what was raised, and where in the foreign source.

    Raises:
        NativeError: `error` itself, at which the worker ends: a call of ours lacked what the foreign code has not used.
    """
    if isinstance(error, _native.NativeError) and is_exhaustion(error) and not used_much_memory():
        raise error
    return {
        "stage": stage,
        "type": type(error).__name__,
        "message": str(error)[:MAX_MESSAGE],
        "trace": _trace(error, source_path)[:MAX_MESSAGE],
    }


def _trace(error: BaseException, source_path: Path) -> str:
    """Return the frames of the foreign file alone: what its writer can act on."""
    frames = [
        f"line {frame.lineno}, in {frame.name}: {(frame.line or '').strip()}"
        for cause in _causes(error)
        for frame in traceback.extract_tb(cause.__traceback__)
        if frame.filename == str(source_path)
    ]
    return "\n".join(dict.fromkeys(frames[-TRACE_LINES:]))


def _causes(error: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and len(chain) < 16:
        chain.append(cause)
        cause = cause.__cause__
    return chain


def root_cause(error: BaseException) -> BaseException:
    """Return the error that a chain of `raise ... from` began with."""
    return _causes(error)[-1]


class Memory:
    """The worker's mappings of the judge's arenas, by name. A new descriptor replaces the mapping of that name."""

    def __init__(self, kind: HostMemory | DeviceMemory | None = None) -> None:
        self.kind = kind or HostMemory()
        self.buffers: dict[str, Shared] = {}

    def receive(self, name: str, size: int, fds: list[int], *, writable: bool) -> "Shared":
        """Map the first of `fds` under `name`; without a descriptor, return what is mapped there already."""
        if fds:
            self.buffers[name] = self.kind.map(fds[0], size, writable=writable)
            os.close(fds.pop(0))
        return self.buffers[name]

    def is_read_only(self, address: int) -> bool:
        return any(
            not buffer.writable and buffer.address <= address < buffer.address + buffer.size
            for buffer in self.buffers.values()
        )


def execute(source: str, path: Path, module_name: str) -> dict[str, Any]:
    """Execute foreign source as a module of its own and return its namespace. The worker must be contained."""
    import sys
    from types import ModuleType

    path.write_text(source, encoding="utf-8", errors="surrogatepass")
    module = ModuleType(module_name)
    module.__file__ = str(path)
    sys.modules[module_name] = module
    exec(compile(source, str(path), "exec"), module.__dict__)
    return module.__dict__
