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
from warpsmith.evaluator.sandbox.rmtree import Backlog, remove, remove_or_say
from warpsmith.evaluator.sandbox.roles import roles_of
from warpsmith.evaluator.system import stderr
from warpsmith.evaluator.system.exhaustion import with_advice
from warpsmith.evaluator.workers import entry

MANY_FORKS: Final = 24
"""From so many on, forks that are cheap repay what making them so takes: half a second, and 16 ms less for each."""
KILLED_S: Final = 10.0
"""What a killed worker takes at most to be gone, unless a driver holds it."""
SAY_S: Final = 30.0
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
    """Answers the judge's requests for workers, and tells it how each ended.

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
        """Fork on request until the judge closes the channel; then kill every worker that is left."""
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
            # What it leaves goes with the folder that all is in.
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
            say_failed(self.channel, number, error, "scratch")
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
            # The tier may be stronger than was found at the start, where something had run out.
            entry.run(spawned, role, None if spawned.tier == "namespaces" else scratch, self.config)
        child = _Child(number, spawned.pidfd, scratch, spawned.cgroup)
        facts = {"number": number, "pid": spawned.pid, "tier": spawned.tier}
        try:
            messages.send(self.channel, Kind.FORKED, facts, [spawned.pidfd, spawned.output_fd])
        except BaseException:
            # Nobody has heard of it.
            self._end(child)
            self._clear(scratch)
            raise
        finally:
            os.close(spawned.output_fd)
        self.children[spawned.pidfd] = child
        poller.register(spawned.pidfd, select.POLLIN)
        self.forks += 1
        if self.forks == MANY_FORKS:
            # The worker lives whether or not forks become cheaper.
            with contextlib.suppress(OSError):
                use_huge_pages()

    def _make_scratch(self) -> Path | None:
        """Make a scratch directory where the tier mounts none of its own; the worker runs as another user there."""
        if self.mounts_scratch:
            return None
        path = Path(tempfile.mkdtemp(dir=self.scratch_root))
        path.chmod(0o777)
        return path

    def _reap(self, child: _Child) -> None:
        """Tell the judge of a worker's end, then remove what it left, which may be anything."""
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
        """Remove a reaped worker's cgroup; return whether the worker was killed at the limit of its own.

        A kill without the limit reached came from further up, where others took the memory.
        """
        if self.cgroups is None:
            return False
        try:
            events = self.cgroups.remove(child.cgroup)
        except _native.NativeError as error:
            # It is removed with the others at the end; one worker's remains are no reason to fail the next.
            stderr.tell(f"A worker's cgroup cannot be removed: {error}\n")
            return False
        return events.limit_reached > 0 and events.killed > 0


def say_failed(channel: _native.Channel, number: int, error: Exception, layer: str) -> None:
    """Tell the judge why a worker, or with the number 0 the zygote itself, cannot be had.

    Args:
        channel: to the judge.
        number: the worker's.
        error: what failed; a NativeError names its own layer.
        layer: what is named for any other error.
    """
    layer = error.layer if isinstance(error, _native.NativeError) else layer
    number_of_error = error.errno if isinstance(error, _native.NativeError | OSError) else 0
    facts = {"number": number, "layer": layer, "message": with_advice(error), "errno": number_of_error or 0}
    messages.send(channel, Kind.FORK_FAILED, facts, timeout_s=SAY_S)


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
    if "compile" in roles:
        from warpsmith.evaluator.workers import compiler

        del compiler  # imported for the workers
    if {"host", "candidate"} & set(roles):
        from warpsmith.evaluator.workers import candidate

        candidate.prepare(language)
    language.warm_up(kind, roles, config.target_arch, folder)
    if kind == "plain" and "candidate" in roles:
        device.prepare_zygote(config.target_arch)


def settle_memory() -> None:
    """Leave no garbage, and nothing for a worker's collector to visit."""
    gc.collect()
    gc.freeze()


def use_huge_pages() -> None:
    """Make forks cheap: a fork copies, and an exit clears, one entry for each page.

    A kernel that cannot collapse pages (before Linux 6.1) leaves them as they are.
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
    """Return a place for the workers' cgroups, or None where the machine gives none and none is required.

    Raises:
        NativeError: one is required; says which condition is missing.
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
    """Say READY and serve; where a layer that is required cannot be had, say FORK_FAILED in place of READY."""
    try:
        cgroups = open_cgroups(config)
    except _native.NativeError as error:
        say_failed(channel, 0, error, "cgroup")
        return
    mounts_scratch = config.strongest_isolation == _native.achievable_tier() == "namespaces"
    if mounts_scratch:
        # Nobody needs it any more, and nobody could leave it behind.
        remove(root)
    messages.send(channel, Kind.READY, {"pid": os.getpid()})
    try:
        libraries = library_paths(config.device_kind)
        programs = language_of(config.language).programs(config.target_arch)
        nodes = config.device_kind.nodes(config.gpu, uuid)
        Zygote(channel, config, root, programs, mounts_scratch, cgroups, libraries, nodes).serve()
    finally:
        if cgroups is not None:
            cgroups.close()


def _warmed_up(channel: _native.Channel, kind: ZygoteKind, config: EvaluatorConfig, root: Path) -> bool:
    """Warm up; where that fails, say why in place of READY and return False."""
    try:
        root.chmod(0o711)
        warm_up(kind, config, root)
        settle_memory()
    except Exception as error:  # noqa: BLE001  (the judge says to its client what it was)
        stderr.tell_error(error)
        say_failed(channel, 0, error, "start")
        return False
    return True


def main(arguments: list[str]) -> None:
    stderr.open_standard_descriptors()
    # Who ignores it, as a parent may have this process do, cannot learn how a worker ended.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    fd = int(arguments[0])
    kind: ZygoteKind | None = next((known for known in get_args(ZygoteKind) if known == arguments[1]), None)
    if kind is None:
        raise SystemExit(f"unknown kind of zygote: {arguments[1]}")
    channel = _native.Channel(fd)
    told = messages.receive(channel).fields
    config = EvaluatorConfig.model_validate_json(told.text("config"))
    root = Path(arguments[2])
    os.environ["TRITON_CACHE_DIR"] = str(root / "triton")
    try:
        if _warmed_up(channel, kind, config, root):
            serve(channel, config, root, told.text("gpu"))
    finally:
        # The judge removes it as well, unless it was killed.
        remove_or_say(root)
    # Triton's bindings report what they leak at an ordinary exit: noise on the user's terminal.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
