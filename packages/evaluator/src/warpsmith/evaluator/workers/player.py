"""Plays recordings in a worker that holds the kernels of a source but none of its host code."""

from pathlib import Path
from typing import Any, TypeAlias

import torch

from warpsmith.evaluator.devices.mappings import Mappings
from warpsmith.evaluator.devices.memory import DeviceMemory
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.languages.triton.interpreter import tracing
from warpsmith.evaluator.languages.triton.loaded_kernels import Binary
from warpsmith.evaluator.timing.worker_rounds import Rounds
from warpsmith.evaluator.workers.player_cuda import Arena, DeviceReplay, faults_named
from warpsmith.evaluator.workers.player_host import Kernels, Replay

ARENAS = ("inputs", "state", "answers")


def _past_of(fields: codec.Fields) -> list[tuple[str, int, codec.Value]]:
    """Return name, size and slots of the inputs of each earlier call that a recording depends on."""
    return [(str(name), int(size), slots) for name, size, slots in fields.sequence("past")]


class HostPlayer:
    """Plays recordings with the interpreted kernels of a source, one at a time.

    Args:
        folder: folder for extracted sources.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._memory = Mappings()
        self._kernels: tuple[str, Kernels] | None = None
        self._fields: codec.Fields | None = None
        # Only once: a monitor lives as long as its process.
        tracing.install(tracing.LaunchMonitor(lambda _: None, self._is_read_only))

    def _is_read_only(self, tensor: torch.Tensor) -> bool:
        return self._memory.is_read_only(tensor.untyped_storage().data_ptr())

    def play(self, fields: codec.Fields, fds: list[int]) -> None:
        """Play the recording in the message, or the last one again, on the current content of the arenas.

        A `ghost` launches no kernels, and fresh memory then starts with its `poison`.
        """
        if not fields.flag("again"):
            self._set_up(fields, fds)
        recording, memory = self._fields, self._memory
        if recording is None or self._kernels is None:
            raise WireError("There is no recording to play.")
        slots = {name: list(codec.slots(recording.value(f"{name}_slots"))) for name in ("inputs", "state")}
        slots |= {name: list(codec.slots(found)) for name, _, found in _past_of(recording)}
        ghost = fields.flag("ghost")
        player = Replay(
            self._kernels[1],
            {name: memory.buffers[name] for name in slots},
            slots,
            poison=fields.integer("poison") if ghost else None,
        )
        events = recording.sequence("events")
        player.run([event for event in events if event[:1] != ["launch"]] if ghost else events)
        player.deliver(recording.sequence("outputs"), recording.value("answer"), memory.buffers["answers"])

    def _set_up(self, fields: codec.Fields, fds: list[int]) -> None:
        self._memory, self._fields = Mappings(), None
        for name in ARENAS:
            self._memory.receive(name, fields.integer(f"{name}_bytes"), fds, writable=name == "answers")
        for name, size, _ in _past_of(fields):
            self._memory.receive(name, size, fds, writable=False)
        source = fields.text("source")
        if self._kernels is None or self._kernels[0] != source:
            self._kernels = source, Kernels.of(source, self._folder)
        self._fields = fields


class DevicePlayer:
    """Plays recordings with compiled kernels, and times them.

    Args:
        kind: the device.
    """

    def __init__(self, kind: DeviceMemory) -> None:
        self._kind = kind
        self._replay: DeviceReplay | None = None
        self._rounds: Rounds | None = None

    def play(self, fields: codec.Fields, fds: list[int]) -> None:
        """Play the recording in the message, or the last one again; see `HostPlayer`."""
        if not fields.flag("again"):
            self._set_up(fields, fds)
        if self._replay is None:
            raise WireError("There is no recording to play.")
        with faults_named():
            if fields.flag("ghost"):
                self._replay.play(ghost=True, poison=fields.integer("poison"))
            else:
                self._replay.play(garbage=fields.flag("garbage"))

    def _set_up(self, fields: codec.Fields, fds: list[int]) -> None:
        if self._replay is not None:
            # Two recordings at once could need more memory than there is.
            self._replay.clear()
            self._replay = None
        memory = Mappings(self._kind)
        for name in ARENAS:
            memory.receive(name, fields.integer(f"{name}_bytes"), fds, writable=name == "answers")
        slots = {name: fields.value(f"{name}_slots") for name in ("inputs", "state")}
        for name, size, found in _past_of(fields):
            memory.receive(name, size, fds, writable=False)
            slots[name] = found
        replay = DeviceReplay(
            self._kind,
            {name: Arena(memory.buffers[name], list(codec.slots(found))) for name, found in slots.items()},
            fields.sequence("events"),
            [Binary.of(values) for values in fields.sequence("binaries")],
            outputs=fields.sequence("outputs"),
            answer=fields.value("answer"),
        )
        replay.set_up(memory.buffers["answers"])
        self._replay = replay

    def ring(self, fields: codec.Fields, fds: list[int]) -> None:
        """Prepare a call on each set of a ring for timing."""
        if self._replay is None:
            raise WireError("There is no recording to time.")
        with faults_named():
            self._rounds = Rounds(self._kind, self._replay.ring(fields, fds))

    def round(self, fields: codec.Fields) -> dict[str, Any]:
        """Time one round."""
        if self._rounds is None:
            raise WireError("There is no ring to walk.")
        with faults_named():
            return self._rounds.round(fields)


Player: TypeAlias = HostPlayer | DevicePlayer
