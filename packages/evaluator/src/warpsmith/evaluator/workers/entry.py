"""The life of a worker after the fork: already contained, it serves one role over its one channel and exits."""

import os
import tempfile
from pathlib import Path
from typing import NoReturn

from warpsmith.evaluator import _native
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.devices import precision
from warpsmith.evaluator.devices.base import Device
from warpsmith.evaluator.devices.host_kind import HOST
from warpsmith.evaluator.devices.kinds import Role
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import messages
from warpsmith.evaluator.ipc.messages import Kind
from warpsmith.evaluator.languages.registry import language_of
from warpsmith.evaluator.sandbox.policies import OFF_DEVICE
from warpsmith.evaluator.sandbox.roles import EXHAUSTED_CODE
from warpsmith.evaluator.system import stderr
from warpsmith.evaluator.system.exhaustion import is_exhaustion


def run(child: _native.InChild, role: Role, scratch: Path | None, config: EvaluatorConfig) -> NoReturn:
    """Serve `role` until the judge closes the channel or the process dies; never returns to the zygote's code."""
    code = 1
    try:
        _serve(child, role, scratch or Path("/tmp"), config)
        code = 0
    except _native.PeerClosed:
        code = 0
    except BaseException as error:  # noqa: BLE001  (nothing may unwind into the zygote's loop)
        stderr.report_error(error)
        code = EXHAUSTED_CODE if is_exhaustion(error) else 1
    finally:
        os._exit(code)


def _serve(child: _native.InChild, role: Role, scratch: Path, config: EvaluatorConfig) -> None:
    tempfile.tempdir = str(scratch)
    caches = {"TRITON_CACHE_DIR": str(scratch / "triton"), "TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor")}
    os.environ.update({"TMPDIR": str(scratch), "HOME": str(scratch)} | caches)
    os.chdir(scratch)
    channel = _native.Channel(child.fd)
    language = language_of(config.language)
    device = HOST.open() if role in OFF_DEVICE else _opened(channel, config)
    _set_precision(role, config)
    messages.send(channel, Kind.READY, {"tier": child.tier})
    match role:
        case "reference":
            from warpsmith.evaluator.workers import reference

            reference.serve(channel, scratch, device, config)
        case "baseline":
            from warpsmith.evaluator.workers import compiled_reference, reference

            compiled_reference.prepare()
            reference.serve(channel, scratch, device, config, pretends=False)
        case "candidate":
            from warpsmith.evaluator.workers import host_code

            host_code.serve(channel, scratch, device, language)
        case "host":
            from warpsmith.evaluator.workers import host_code

            host_code.serve(channel, scratch, device, language, detached=True)
        case "compile":
            from warpsmith.evaluator.workers import compiler

            compiler.serve(channel, scratch, language, config.chip)


def _opened(channel: _native.Channel, config: EvaluatorConfig) -> Device:
    """Open the device once the judge allows it: it runs work there and creates a context, which disturb a timing."""
    config.device_kind.prepare_worker(context=config.contexts_beside_timing)
    messages.send(channel, Kind.PREPARED, {})
    answer = messages.receive(channel)
    if answer.kind is not Kind.OPEN_DEVICE:
        raise WireError(f"{answer.kind.name} was sent; OPEN_DEVICE was expected.")
    return config.device_kind.open()


def _set_precision(role: Role, config: EvaluatorConfig) -> None:
    """Set the same precision of torch's products in every worker that may compute any, including timed ones."""
    if role != "compile":
        precision.apply(config.precision)
