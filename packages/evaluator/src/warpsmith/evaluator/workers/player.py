"""Plays recordings in a worker that holds the kernels of a source but none of its host code."""

from abc import ABC, abstractmethod
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from warpsmith.evaluator.devices.base import Device, OnDevice
from warpsmith.evaluator.devices.mappings import Mappings
from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc import codec
from warpsmith.evaluator.languages.base import InterpretedKernels, KernelLanguage
from warpsmith.evaluator.timing.worker_rounds import Rounds
from warpsmith.evaluator.workers.player_cuda import Arena, DeviceReplay, ReplayedCall, faults_named, step_times
from warpsmith.evaluator.workers.player_host import Replay

ARENAS = ("inputs", "state", "answers")


class Player(ABC):
    """Replays recordings in a worker that holds the kernels of a source and none of its host code.

    A method does its work on the device inside `on_device`; the rest is for the driver or the host only.
    """

    @abstractmethod
    def play(self, fields: codec.Fields, fds: list[int], on_device: OnDevice = nullcontext) -> dict[str, Any]:
        """Play the recording in the request, or the last one again, on the arenas' current content.

        A `ghost` launches no kernel, and fresh memory starts out filled with its `poison`.

        Returns:
            The fields of DONE: `bytes_moved` by kernels and by host code, absent if not counted.
        """

    def profile(self) -> dict[str, Any]:
        """Return the device's times of the steps of a call on a ring; WireError where nothing is timed.

        `kernels_ms` is that of the kernels, `all_ms` that of all steps; both are 0 if they could not be taken.
        """
        raise WireError("This worker's device times no calls.")

    def ring(self, fields: codec.Fields, fds: list[int], on_device: OnDevice = nullcontext) -> None:
        """Prepare a call on each set of a ring for timing; WireError on a device that does not time."""
        raise WireError("This worker's device times no calls.")

    def round(self, fields: codec.Fields, on_device: OnDevice = nullcontext) -> dict[str, Any]:
        """Time one round; WireError on a device that does not time."""
        raise WireError("This worker's device times no calls.")


def player_for(device: Device, language: KernelLanguage, folder: Path) -> Player:
    """Return the player for a device.

    Args:
        device: that the worker has.
        language: of the source's kernels.
        folder: where extracted sources may be written.
    """
    return HostPlayer(device, language, folder) if device.kind.interprets else DevicePlayer(device, language)


def _past_of(fields: codec.Fields) -> list[tuple[str, int, codec.Value]]:
    """Return name, size and slots of the inputs of each earlier call that a recording depends on."""
    return [(str(name), int(size), slots) for name, size, slots in fields.sequence("past")]


class HostPlayer(Player):
    """Plays recordings with a source's interpreted kernels, one after another; arguments as for `player_for`."""

    def __init__(self, device: Device, language: KernelLanguage, folder: Path) -> None:
        self._device = device
        self._language = language
        self._folder = folder
        self._memory = Mappings(device)
        self._kernels: tuple[str, InterpretedKernels] | None = None
        self._fields: codec.Fields | None = None
        # Only once: a monitor lives as long as its process.
        self._traffic = language.watch_replays(self._is_read_only)

    def _is_read_only(self, tensor: torch.Tensor) -> bool:
        return self._memory.is_read_only(tensor.untyped_storage().data_ptr())

    def play(self, fields: codec.Fields, fds: list[int], on_device: OnDevice = nullcontext) -> dict[str, Any]:
        """As of `Player`."""
        if not fields.flag("again"):
            self._set_up(fields, fds)
        if self._fields is None or self._kernels is None:
            raise WireError("There is no recording to play.")
        with on_device():
            return self._interpret(self._fields, self._kernels[1], fields)

    def _interpret(self, recording: codec.Fields, kernels: InterpretedKernels, fields: codec.Fields) -> dict[str, Any]:
        memory = self._memory
        slots = {name: list(codec.slots(recording.value(f"{name}_slots"))) for name in ("inputs", "state")}
        slots |= {name: list(codec.slots(found)) for name, _, found in _past_of(recording)}
        ghost = fields.flag("ghost")
        player = Replay(
            kernels,
            {name: memory.buffers[name] for name in slots},
            slots,
            poison=fields.integer("poison") if ghost else None,
        )
        events = recording.sequence("events")
        if self._traffic is not None:
            self._traffic.bytes_moved = 0
        player.run([event for event in events if event[:1] != ["launch"]] if ghost else events)
        player.deliver(recording.sequence("outputs"), recording.value("answer"), memory.buffers["answers"])
        if self._traffic is None or player.bytes_moved is None:
            return {}
        return {"bytes_moved": self._traffic.bytes_moved + player.bytes_moved}

    def _set_up(self, fields: codec.Fields, fds: list[int]) -> None:
        self._memory, self._fields = Mappings(self._device), None
        for name in ARENAS:
            self._memory.receive(name, fields.integer(f"{name}_bytes"), fds, writable=name == "answers")
        for name, size, _ in _past_of(fields):
            self._memory.receive(name, size, fds, writable=False)
        source = fields.text("source")
        if self._kernels is None or self._kernels[0] != source:
            self._kernels = source, self._language.interpreted(source, self._folder)
        self._fields = fields


class DevicePlayer(Player):
    """Plays recordings with compiled kernels, and times one of them.

    Args:
        device: that it plays on.
    """

    def __init__(self, device: Device, language: KernelLanguage) -> None:
        self._device = device
        self._language = language
        self._replay: DeviceReplay | None = None
        self._rounds: Rounds | None = None

    def play(self, fields: codec.Fields, fds: list[int], on_device: OnDevice = nullcontext) -> dict[str, Any]:
        """As of `Player`."""
        if not fields.flag("again"):
            self._set_up(fields, fds)
        if self._replay is None:
            raise WireError("There is no recording to play.")
        with faults_named(), on_device():
            if fields.flag("ghost"):
                self._replay.play(ghost=True, poison=fields.integer("poison"))
            else:
                self._replay.play(garbage=fields.flag("garbage"))
        return {}

    def profile(self) -> dict[str, Any]:
        """As of `Player`."""
        if self._rounds is None:
            raise WireError("There is no ring to profile a call of.")
        call = self._rounds.calls[0]
        if not isinstance(call, ReplayedCall):
            raise WireError("The ring has no calls of a recording.")
        with faults_named():
            kernels_ms, all_ms = step_times(self._device, call)
        return {"kernels_ms": kernels_ms, "all_ms": all_ms}

    def _set_up(self, fields: codec.Fields, fds: list[int]) -> None:
        if self._replay is not None:
            # Two recordings at once could need more memory than there is.
            self._replay.clear()
            self._replay = None
        memory = Mappings(self._device)
        for name in ARENAS:
            memory.receive(name, fields.integer(f"{name}_bytes"), fds, writable=name == "answers")
        slots = {name: fields.value(f"{name}_slots") for name in ("inputs", "state")}
        for name, size, found in _past_of(fields):
            memory.receive(name, size, fds, writable=False)
            slots[name] = found
        replay = DeviceReplay(
            self._device,
            {name: Arena(memory.buffers[name], list(codec.slots(found))) for name, found in slots.items()},
            fields.sequence("events"),
            fields.sequence("binaries"),
            language=self._language,
            outputs=fields.sequence("outputs"),
            answer=fields.value("answer"),
        )
        replay.set_up(memory.buffers["answers"])
        self._replay = replay

    def ring(self, fields: codec.Fields, fds: list[int], on_device: OnDevice = nullcontext) -> None:
        """As of `Player`."""
        if self._replay is None:
            raise WireError("There is no recording to time.")
        with faults_named():
            self._rounds = Rounds(self._device, self._replay.ring(fields, fds, on_device), on_device)

    def round(self, fields: codec.Fields, on_device: OnDevice = nullcontext) -> dict[str, Any]:
        """As of `Player`."""
        if self._rounds is None:
            raise WireError("There is no ring to walk.")
        with faults_named():
            return self._rounds.round(fields, on_device)
