"""The zygote: a trusted process of one thread that has imported torch and the kernel language, and forks workers.

It holds no secret and runs no foreign code. Started as `python -m warpsmith.evaluator.workers.zygote FD KIND FOLDER`,
with KIND `plain` (reference and compile workers) or `interpreting` (candidate workers, in the environment that the
language's interpreter needs).
"""

import contextlib
import ctypes
import gc
import os
import select
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, get_args

from warpsmith.evaluator import _native
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.devices.host_kind import HOST
from warpsmith.evaluator.devices.kinds import Nodes, Role, ZygoteKind
from warpsmith.evaluator.ipc import messages
from warpsmith.evaluator.ipc.messages import Kind
from warpsmith.evaluator.languages.registry import language_of
from warpsmith.evaluator.sandbox.policies import library_paths, policy_for
from warpsmith.evaluator.sandbox.rmtree import Backlog, remove, remove_or_report
from warpsmith.evaluator.sandbox.roles import roles_of
from warpsmith.evaluator.system import stderr
from warpsmith.evaluator.system.exhaustion import with_advice
from warpsmith.evaluator.workers import entry

MANY_FORKS: Final = 24
"""Number of forks after which cheaper forks pay off: the setup takes half a second, and saves 16 ms per fork."""
KILLED_S: Final = 10.0
"""Longest time a killed worker takes to exit, unless a driver holds it."""
REPORT_S: Final = 30.0
HUGE_PAGE_BYTES: Final = 2 << 20
MADV_COLLAPSE: Final = 25


@dataclass
class _Child:
    number: int
    pidfd: int
    scratch: Path | None
    cgroup: str


@dataclass
class Zygote:
    """Answers the judge's requests for workers, and reports how each ended.

    `nodes` are those of their device; None where it has none.
    """

    channel: _native.Channel
    config: EvaluatorConfig
    scratch_root: Path
    programs: tuple[Path, ...]
    mounts_scratch: bool
    cgroups: _native.Cgroups | None
    libraries: list[Path]
    nodes: Nodes | None
    children: dict[int, _Child] = field(default_factory=dict)
    left: Backlog = field(default_factory=Backlog)
    remover: int = -1
    forks: int = 0

    def serve(self) -> None:
        """Fork on request until the judge closes the channel; then kill all remaining workers."""
        poller = select.poll()
        poller.register(self.channel.fileno(), select.POLLIN)
        try:
            while True:
                for fd, _ in poller.poll():
                    self._attend(fd, poller)
        except _native.PeerClosed:
            for child in self.children.values():
                self._end(child)
        finally:
            # Its leftovers are removed with the root folder.
            self.left.end()

    def _attend(self, fd: int, poller: select.poll) -> None:
        if fd == self.channel.fileno():
            self._answer(poller)
        elif fd == self.remover:
            poller.unregister(fd)
            os.close(fd)
            self.remover = -1
            self.left.end()
        else:
            poller.unregister(fd)
            self._reap(self.children.pop(fd))
        remover = self.left.begin()
        if remover is not None:
            self.remover = remover
            poller.register(remover, select.POLLIN)

    def _answer(self, poller: select.poll) -> None:
        message = messages.receive(self.channel)
        number, role = message.fields.integer("number"), message.fields.text("role")
        channel_fd = message.fds[0]
        try:
            self._fork(number, role, channel_fd, poller)  # type: ignore[arg-type]
        except _native.PeerClosed:
            raise
        except (_native.NativeError, OSError) as error:
            report_failure(self.channel, number, error, "scratch")
        finally:
            os.close(channel_fd)

    def _fork(self, number: int, role: Role, channel_fd: int, poller: select.poll) -> None:
        self.config.device_kind.check_forkable()
        scratch = self._make_scratch()
        policy = policy_for(role, self.config, scratch, self.programs, self.libraries, nodes=self.nodes)
        try:
            spawned = _native.spawn(policy, channel_fd, self.cgroups)
        except _native.NativeError:
            self._clear(scratch)
            raise
        if isinstance(spawned, _native.InChild):
            # The tier can be stronger than at the start if a resource had run out then.
            entry.run(spawned, role, None if spawned.tier == "namespaces" else scratch, self.config)
        child = _Child(number, spawned.pidfd, scratch, spawned.cgroup)
        facts = {"number": number, "pid": spawned.pid, "tier": spawned.tier}
        try:
            messages.send(self.channel, Kind.FORKED, facts, [spawned.pidfd, spawned.output_fd])
        except BaseException:
            # The judge does not know of it.
            self._end(child)
            self._clear(scratch)
            raise
        finally:
            os.close(spawned.output_fd)
        self.children[spawned.pidfd] = child
        poller.register(spawned.pidfd, select.POLLIN)
        self.forks += 1
        if self.forks == MANY_FORKS:
            # The worker is fine whether or not forks become cheaper.
            with contextlib.suppress(OSError):
                use_huge_pages()

    def _make_scratch(self) -> Path | None:
        """Make a scratch directory if the tier mounts none; the worker runs there as another user."""
        if self.mounts_scratch:
            return None
        path = Path(tempfile.mkdtemp(dir=self.scratch_root))
        path.chmod(0o777)
        return path

    def _reap(self, child: _Child) -> None:
        """Report a worker's end to the judge, then remove its files, which can be anything."""
        ended = _native.wait(child.pidfd)
        os.close(child.pidfd)
        out_of_memory = self._take_cgroup(child)
        if ended is not None:
            facts = {"number": child.number, "code": ended.code, "signal": ended.signal, "out_of_memory": out_of_memory}
            messages.send(self.channel, Kind.EXITED, facts)
        self._clear(child.scratch)

    def _end(self, child: _Child) -> None:
        """Kill and reap a worker."""
        _native.kill(child.pidfd)
        _native.wait(child.pidfd, KILLED_S)
        os.close(child.pidfd)
        self._take_cgroup(child)

    def _clear(self, scratch: Path | None) -> None:
        if scratch is not None:
            self.left.remove(scratch)

    def _take_cgroup(self, child: _Child) -> bool:
        """Remove a reaped worker's cgroup; return whether the worker was killed at its own limit.

        A kill without reaching its limit came from a parent cgroup, whose memory others used.
        """
        if self.cgroups is None:
            return False
        try:
            events = self.cgroups.remove(child.cgroup)
        except _native.NativeError as error:
            # It is removed with the others at the end; the remains of one worker must not fail the next.
            stderr.report(f"A worker's cgroup cannot be removed: {error}\n")
            return False
        return events.limit_reached > 0 and events.killed > 0


def report_failure(channel: _native.Channel, number: int, error: Exception, layer: str) -> None:
    """Report to the judge why a worker, or with the number 0 the zygote itself, could not be started.

    Args:
        channel: channel to the judge.
        number: number of the worker.
        error: the failure; a NativeError names its own layer.
        layer: the layer to name for any other error.
    """
    layer = error.layer if isinstance(error, _native.NativeError) else layer
    number_of_error = error.errno if isinstance(error, _native.NativeError | OSError) else 0
    facts = {"number": number, "layer": layer, "message": with_advice(error), "errno": number_of_error or 0}
    messages.send(channel, Kind.FORK_FAILED, facts, timeout_s=REPORT_S)


def warm_up(kind: ZygoteKind, config: EvaluatorConfig, folder: Path) -> None:
    """Import what this zygote's workers need and run one trusted kernel, so that no worker pays for it.

    Args:
        kind: of the zygote.
        config: says which workers it forks, and for which device, language and chip.
        folder: where it may write.
    """
    import torch

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.zeros(4).double().sum().item()
    roles, device, language = roles_of(config)[kind], config.device_kind, language_of(config.language)
    for known in (device, HOST):
        known.device_class()
    if "reference" in roles:
        from warpsmith.evaluator.workers import reference

        reference.prepare()
    if "baseline" in roles:
        from warpsmith.evaluator.workers import compiled_reference

        del compiled_reference  # imported for the workers
    if "compile" in roles:
        from warpsmith.evaluator.workers import compiler

        del compiler  # imported for the workers
    if {"host", "candidate"} & set(roles):
        from warpsmith.evaluator.workers import host_code

        host_code.prepare(language)
    language.warm_up(kind, roles, config.chip, folder)
    if kind == "plain" and "candidate" in roles:
        device.prepare_zygote(config.target_arch)


def settle_memory() -> None:
    """Collect garbage, and exempt all objects from the workers' garbage collectors."""
    gc.collect()
    gc.freeze()


def use_huge_pages() -> None:
    """Make forks cheap: a fork copies, and an exit clears, one entry per page.

    A kernel that cannot collapse pages (before Linux 6.1) leaves them unchanged.
    """
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for start, end in private_memory(Path("/proc/self/maps").read_text(encoding="utf-8")):
        for page in range(-(-start // HUGE_PAGE_BYTES) * HUGE_PAGE_BYTES, end - HUGE_PAGE_BYTES + 1, HUGE_PAGE_BYTES):
            madvise(page, HUGE_PAGE_BYTES, MADV_COLLAPSE)


def private_memory(maps: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges [start, end) of heap and anonymous memory in a process's memory map."""
    for line in maps.splitlines():
        where, access, *_, name = [*line.split(maxsplit=5), ""][:6]
        if access == "rw-p" and name in {"", "[heap]"}:
            start, _, end = where.partition("-")
            yield int(start, 16), int(end, 16)


def open_cgroups(config: EvaluatorConfig) -> "_native.Cgroups | None":
    """Return a directory for the workers' cgroups, or None if the machine has none and none is required.

    Raises:
        NativeError: one is required; it names the missing condition.
    """
    if config.cgroups == "off":
        return None
    try:
        return _native.Cgroups.open()
    except _native.NativeError:
        if config.cgroups == "required":
            raise
        return None


def serve(channel: _native.Channel, config: EvaluatorConfig, root: Path, uuid: str) -> None:
    """Send READY and serve; if a required layer is unavailable, send FORK_FAILED instead."""
    try:
        cgroups = open_cgroups(config)
    except _native.NativeError as error:
        report_failure(channel, 0, error, "cgroup")
        return
    mounts_scratch = config.strongest_isolation == _native.achievable_tier() == "namespaces"
    if mounts_scratch:
        # No longer needed; removed now so that it cannot be left behind.
        remove(root)
    messages.send(channel, Kind.READY, {"pid": os.getpid()})
    try:
        libraries = library_paths(config.device_kind)
        programs = language_of(config.language).programs(config.chip)
        nodes = config.device_kind.nodes(config.gpu, uuid)
        Zygote(channel, config, root, programs, mounts_scratch, cgroups, libraries, nodes).serve()
    finally:
        if cgroups is not None:
            cgroups.close()


def _warmed_up(channel: _native.Channel, kind: ZygoteKind, config: EvaluatorConfig, root: Path) -> bool:
    """Warm up; on failure, report it instead of READY and return False."""
    try:
        root.chmod(0o711)
        warm_up(kind, config, root)
        settle_memory()
    except Exception as error:  # noqa: BLE001  (the judge reports it to its client)
        stderr.report_error(error)
        report_failure(channel, 0, error, "start")
        return False
    return True


def main(arguments: list[str]) -> None:
    stderr.open_standard_descriptors()
    # A parent may have set it to be ignored, and then the exit status of workers would be lost.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    fd = int(arguments[0])
    kind: ZygoteKind | None = next((known for known in get_args(ZygoteKind) if known == arguments[1]), None)
    if kind is None:
        raise SystemExit(f"unknown kind of zygote: {arguments[1]}")
    channel = _native.Channel(fd)
    fields = messages.receive(channel).fields
    config = EvaluatorConfig.model_validate_json(fields.text("config"))
    root = Path(arguments[2])
    os.environ["TRITON_CACHE_DIR"] = str(root / "triton")
    try:
        if _warmed_up(channel, kind, config, root):
            serve(channel, config, root, fields.text("gpu"))
    finally:
        # The judge removes it as well, unless it was killed.
        remove_or_report(root)
    # At a normal exit Triton's bindings report leaks, which would clutter the user's terminal.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
