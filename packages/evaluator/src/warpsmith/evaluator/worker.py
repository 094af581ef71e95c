"""The life of a worker after the fork: contained already, it serves one role over its one channel and ends."""

import os
import tempfile
from pathlib import Path
from typing import NoReturn

from warpsmith.evaluator import _native, diagnostics, precision, protocol
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.exhaustion import is_exhaustion
from warpsmith.evaluator.memory import memory_of
from warpsmith.evaluator.protocol import Kind
from warpsmith.evaluator.roles import EXHAUSTED_CODE
from warpsmith.evaluator.sandbox import OFF_DEVICE, Role


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
