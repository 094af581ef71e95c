"""One weight sync: gather, send, check, probe, by the transport of the run."""

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from warpsmith.records.errors import WarpsmithError
from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.distributed.gathered_weights import whole_on_device
from warpsmith.trainer.distributed.ranks import Ranks
from warpsmith.trainer.distributed.zero_engine import ZeroEngine
from warpsmith.trainer.weights.probe import trainer_logprobs
from warpsmith.trainer.weights.stream import SLOTS, HostCopy, StreamSender, check_dtypes, send_all
from warpsmith.trainer.weights.sync import payload_of
from warpsmith.trainer.weights.transport import Transport

if TYPE_CHECKING:
    from warpsmith.rollout.samplers.weights.payload import WeightPayload
    from warpsmith.rollout.samplers.weights.stream.layout import StreamLayout
    from warpsmith.trainer.weights.sampler_link import SamplerLink

_MIB = 1 << 20


@dataclass(frozen=True)
class Synced:
    """A sync that succeeded.

    Attributes:
        gap: the probe's largest gap; 0 off rank 0.
        figures: seconds of its phases; empty off rank 0.
    """

    gap: float
    figures: dict[str, float]


class WeightSync:
    """Sends the weights of a run to its samplers and checks that they arrived. Every method is collective.

    Args:
        config: the run.
        engine: the model in training.
        ranks: the processes.
        link: the samplers; on rank 0 alone.
        transport: how the weights go; see `transport.choose`.
    """

    def __init__(
        self,
        config: TrainerConfig,
        engine: ZeroEngine,
        ranks: Ranks,
        link: "SamplerLink | None",
        transport: Transport,
    ) -> None:
        self.config, self.engine, self.ranks, self.link = config, engine, ranks, link
        self._probe_ids = ranks.shared(self._asked_for)
        self._copy: HostCopy | None = None
        self.transport = transport

    def send(self, version: int) -> Synced:
        """Load the weights into every sampler as `version`, and compare its log-probabilities with the trainer's.

        Raises:
            SyncError: they did not arrive, or in time, or the probe found others.
            RolloutError: a sampler failed.
        """
        return self._by_stream(version) if self.transport.kind == "device" else self._by_payload(version)

    def _asked_for(self) -> list[int]:
        if self.link is None:
            raise AssertionError("only rank 0 samples")
        return self.link.probe_ids

    def _by_payload(self, version: int) -> Synced:
        """Gather the weights in host memory and send them at once; completions in flight end meanwhile."""
        began = time.monotonic()
        adapter, elements = self.config.sends_adapter, self.config.sync.gather_elements
        payload = payload_of(self.engine, self.ranks, version, elements, adapter=adapter)
        gathered = time.monotonic() - began
        expected, computed = self._expected()
        if self.link is None or payload is None:
            return Synced(0.0, {})
        with self.link.paused():
            seconds = {"gather_s": gathered, **self._published(self.link, payload)}
            return self._probed(self.link, expected, seconds, computed)

    @staticmethod
    def _published(link: "SamplerLink", payload: "WeightPayload") -> dict[str, float]:
        began = time.monotonic()
        link.publish(payload)
        spent = time.monotonic() - began
        seconds = asdict(link.update_seconds())
        # The way through Ray's object store is seen from here alone.
        seconds["send_s"] = max(0.0, spent - seconds["load_s"] - seconds["verify_s"])
        return seconds

    def _by_stream(self, version: int) -> Synced:
        """Gather and send the weights concurrently, while no completion runs."""
        with nullcontext() if self.link is None else self.link.paused():
            seconds = self._streamed(version)
            if self.link is None:
                self._expected()
                return Synced(0.0, {})
            return self._probed_beside(self.link, seconds)

    def _probed_beside(self, link: "SamplerLink", seconds: dict[str, float]) -> Synced:
        """Compute both sides of the probe concurrently."""
        began = time.monotonic()
        begun = link.begin_probe()
        try:
            expected, _ = self._expected()
        except BaseException:
            link.abandon(begun)
            raise
        return _synced(link.probe(expected, begun), {**seconds, "probe_s": time.monotonic() - began})

    def _expected(self) -> tuple[list[list[float]], float]:
        """Return the trainer's log-probabilities of the probe for each adapter, and how long they took; collective.

        They follow the gather: a pass under ZeRO-3 leaves parameters on their way for the next pass, and what is on its
        way cannot be gathered.
        """
        began = time.monotonic()
        agents = self.engine.agents or (None,)
        expected = [trainer_logprobs(self.engine, self.ranks, self._probe_ids, agent) for agent in agents]
        return expected, time.monotonic() - began

    @staticmethod
    def _probed(
        link: "SamplerLink", expected: Sequence[Sequence[float]], seconds: dict[str, float], computed: float
    ) -> Synced:
        began = time.monotonic()
        gap = link.probe(expected)
        return _synced(gap, {**seconds, "probe_s": computed + time.monotonic() - began})

    def _streamed(self, version: int) -> dict[str, float]:
        """Stream the weights on all ranks; the others learn whether rank 0 failed, and wait for its end if it did."""
        failure: WarpsmithError | None = None
        seconds: dict[str, float] = {}
        try:
            seconds = self._stream(version)
        except WarpsmithError as error:
            failure = error
        arrived = self.ranks.shared(lambda: failure is None)
        if failure is not None:
            raise failure
        if not arrived:
            self.ranks.barrier()
        return seconds

    def _stream(self, version: int) -> dict[str, float]:
        parts = self.engine.weight_parts()
        tensors = whole_on_device(parts, self.ranks, self.config.sync.gather_elements)
        if self.link is None:
            send_all(tensors, None)
            return {}
        from warpsmith.rollout.samplers.weights.stream.layout import StreamLayout
        from warpsmith.rollout.samplers.weights.stream.media import slot_memory
        from warpsmith.rollout.samplers.weights.stream.pool import slowest

        announced = [(part.name, part.dtype, part.shape) for part in parts]
        layout = StreamLayout.of(version, announced, self.config.sync.bucket_mib * _MIB)
        check_dtypes(layout, self.config.policy.dtype)
        memory = slot_memory(self.ranks.device, SLOTS, min(layout.bucket_bytes, layout.nbytes))
        try:
            update = self.link.stream(layout, memory, self._restoring(layout))
            sender = StreamSender(update, memory, self.link.loop, self.link.deadline_s, self._copy)
            receipts = send_all(tensors, sender)
        finally:
            memory.close()
        return {"gather_s": sender.seconds.gather_s, **asdict(slowest(receipts))}

    def _restoring(self, layout: "StreamLayout") -> "Callable[[], WeightPayload]":
        """Return what makes these weights once more, for a sampler that restarts before the next sync."""
        spread = self.config.zero.stage == 3 or self.ranks.layers is not None
        if spread or self.config.algorithm.max_staleness:
            if self._copy is None:
                self._copy = HostCopy(layout.nbytes, pinned=self.ranks.device.type == "cuda")
            return self._copy.begin(layout)
        return lambda: self._live(layout.version)

    def _live(self, version: int) -> "WeightPayload":
        """Return the weights of this rank, which has all of them and does not train while rollouts run."""
        payload = payload_of(self.engine, self.ranks, version, self.config.sync.gather_elements)
        if payload is None:
            raise AssertionError("only rank 0 sends")
        return payload


def _synced(gap: float, seconds: dict[str, float]) -> Synced:
    return Synced(gap, {f"sync_{name}": value for name, value in seconds.items()})
