"""Updates that go wrong, in real engines over Ray: each is noticed, and no token comes of a mixture of weights."""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from warpsmith.policy.loading import load_policy
from warpsmith.policy.logprobs import token_logprobs
from warpsmith.rollout.cluster.session import ray_session
from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.errors import BadPayloadError, DeadlinePassedError, SamplerDiedError, WeightsUnknownError
from warpsmith.rollout.samplers import Completion, Sampling, WeightPayload
from warpsmith.rollout.samplers.base import StreamReceipt
from warpsmith.rollout.samplers.pool import SamplerPool
from warpsmith.rollout.samplers.ray_actor import RemoteSampler, SamplerActor
from warpsmith.rollout.samplers.weights.stream.layout import Bucket, StreamLayout
from warpsmith.rollout.samplers.weights.stream.media import SharedMemorySlots
from warpsmith.rollout.samplers.weights.stream.pool import PoolStream
from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.distributed.zero_engine import ZeroEngine
from warpsmith.trainer.errors import ProbeError, SyncError, SyncTimeoutError
from warpsmith.trainer.weights import sync
from warpsmith.trainer.weights.probe import Probe, rounding_for, tolerance_for
from warpsmith.trainer.weights.sampler_link import SamplerLink
from warpsmith.trainer.weights.stream import SLOTS, HostCopy, StreamSender, send_all
from warpsmith.trainer.weights.transport import Transport
from warpsmith.trainer.weights.weight_sync import WeightSync

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

State = dict[str, torch.Tensor]

CONFIG = SamplerConfig(dtype="float32", max_model_len=512, max_sequences=8)
TOLERANCE, ROUNDING = (limit("float32", "float32") for limit in (tolerance_for, rounding_for))
# Longer than a block of vLLM's prefix cache, which is of 128 tokens on a CPU.
PROMPT = [(7 * i * i + 3) % 500 for i in range(160)]
LAYER = "model.layers.1."


def faulty_actor() -> type:
    """Return the class of the actor; made in here, it goes to the actor's process by value."""

    class Faulty(SamplerActor):
        """An engine's actor that does an update wrongly on request."""

        def __init__(self, path: str, config: dict[str, Any], version: int, fault: str) -> None:
            super().__init__(path, config, version)
            from vllm.v1.engine.llm_engine import LLMEngine

            from warpsmith.rollout.samplers.vllm import in_process

            self.fault, self.owed = fault, None
            self.running: set[asyncio.Future[Completion]] = set()
            self.released = asyncio.Event()
            self.module, self.vllm = in_process, LLMEngine
            self.whole = in_process.pack_output_layer, LLMEngine.reset_prefix_cache

        async def misbehave(self, fault: str) -> None:
            self.fault = fault
            self.module.pack_output_layer, self.vllm.reset_prefix_cache = self.whole
            if fault == "output layer not packed":
                self.module.pack_output_layer = lambda worker: None
            if fault == "cache kept":
                self.vllm.reset_prefix_cache = lambda engine, **_: True
            if fault == "cache refused":
                self.vllm.reset_prefix_cache = lambda engine, **_: False

        async def generate(self, prompt_ids: list[int], sampling: Sampling) -> Completion:
            request = asyncio.ensure_future(super().generate(prompt_ids, sampling))
            self.running.add(request)
            return await request

        async def release(self) -> None:
            """Let updates through that were held, once all requests before have been answered."""
            await asyncio.gather(*self.running)
            self.released.set()

        async def update_weights(self, payload: WeightPayload) -> int:
            if self.fault == "held":
                await self.released.wait()
            if self.fault == "late":
                await asyncio.Event().wait()
            if self.fault == "early":
                self.owed = payload
                return payload.version
            return await super().update_weights(payload)

        async def begin_stream(self, *arguments: Any) -> None:
            self.stage("begin")
            await super().begin_stream(*arguments)

        async def take_bucket(self, bucket: Bucket) -> None:
            self.stage(f"bucket {bucket.number}")
            if self.fault == f"late at bucket {bucket.number}":
                await asyncio.Event().wait()
            await super().take_bucket(bucket)

        async def finish_stream(self) -> tuple[int, StreamReceipt]:
            self.stage("finish")
            return await super().finish_stream()

        def stage(self, name: str) -> None:
            if self.fault == f"dies at {name}":
                os._exit(9)

        async def catch_up(self) -> int:
            return await super().update_weights(self.owed)

    return Faulty


class FaultyEngine(RemoteSampler):
    """The handle of such an actor; `newest` gets each new one, which begins with `fault`."""

    fault = ""
    newest: asyncio.Queue[Any] | None = None

    def _new_actor(self) -> Any:
        import ray

        actor = ray.remote(faulty_actor()).options(max_concurrency=64, **self._options)
        started = actor.remote(str(self.path.resolve()), self.config.model_dump(), self._first_version, self.fault)
        if self.newest is not None:
            self.newest.put_nowait(started)
        return started

    async def misbehave(self, fault: str) -> None:
        await self.actor.misbehave.remote(fault)


def torn(payload: WeightPayload, after: int) -> WeightPayload:
    """Return a payload that is whole by its table of contents, and ends after some tensors when it is read."""

    class Torn(WeightPayload):
        def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
            for number, pair in enumerate(super().tensors()):
                if number == after:
                    raise OSError("the bytes end here")
                yield pair

    return Torn(payload.version, payload.manifest, payload.data)


class Spoiler(HostCopy):
    """A copy that is asked to damage each bucket before the samplers are notified of it."""

    def __init__(self, nbytes: int, spoil: Callable[[Bucket, torch.Tensor], None]) -> None:
        super().__init__(nbytes, pinned=False)
        self.spoil = spoil

    def keep(self, bucket: Bucket, slot: torch.Tensor) -> None:
        super().keep(bucket, slot)
        self.spoil(bucket, slot)


@dataclass
class Lab:
    """Two engines, three sets of weights, and what is right for each: `fresh` is of an engine started on `new`."""

    loop: asyncio.Runner
    engine: FaultyEngine
    other: FaultyEngine
    states: dict[str, State]
    expected: dict[str, list[float]]
    fresh: list[list[int]] = field(default_factory=list)
    version: int = 0
    deadline_s: float = 60.0

    def payload(self, state: State) -> WeightPayload:
        self.version += 1
        return WeightPayload.from_state_dict(self.version, state)

    def publish(self, payload: WeightPayload, engine: Any = None, deadline_s: float = 60.0) -> None:
        self.loop.run(sync.publish(payload, engine or self.engine, deadline_s, "float32"))

    def stream(self, state: State, spoil: Callable[[Bucket, torch.Tensor], None] = lambda *_: None) -> None:
        """Send weights bucket by bucket, as rank 0 does; `spoil` may damage a slot before it is announced."""
        self.version += 1
        layout = StreamLayout.of(self.version, [(n, "float32", t.shape) for n, t in state.items()], 1 << 18)
        memory = SharedMemorySlots(SLOTS, layout.bucket_bytes)
        update = PoolStream(
            SamplerPool([self.engine]), layout, memory, lambda: WeightPayload.from_state_dict(layout.version, state)
        )
        copy = Spoiler(layout.nbytes, spoil)
        copy.begin(layout)
        sender = StreamSender(update, memory, self.loop, self.deadline_s, copy)
        try:
            send_all(state.items(), sender)
        finally:
            memory.close()

    def probe(self, probe: Probe, weights: str, *engines: FaultyEngine) -> float:
        return self.loop.run(probe.compare(engines or [self.engine], self.expected[weights]))

    def tokens(self, engine: Any = None) -> list[list[int]]:
        async def sampled() -> list[list[int]]:
            samplings = [Sampling(max_tokens=24, seed=seed) for seed in range(3)]
            requests = [(engine or self.engine).generate(PROMPT, sampling) for sampling in samplings]
            return [completion.ids for completion in await asyncio.gather(*requests)]

        return self.loop.run(sampled())

    def recovers(self, probe: Probe | None = None) -> None:
        """Send whole weights; the engine is then as one that was started on them."""
        self.loop.run(self.engine.misbehave(""))
        self.publish(self.payload(self.states["new"]))
        if probe is not None:
            assert self.probe(probe, "new") < ROUNDING
        assert self.tokens() == self.fresh


def noisy(state: State, scale: float, seed: int) -> State:
    generator = torch.Generator().manual_seed(seed)
    noise = {name: torch.randn(t.shape, generator=generator) for name, t in state.items()}
    return {name: t + scale * t.std() * noise[name] if t.ndim > 1 else t for name, t in state.items()}


@pytest.fixture(scope="module")
def lab(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    model = load_policy(tiny, "float32").model
    # As ZeRO gives them: the output layer, tied to the embedding, has no name of its own.
    old = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    states = {"old": old, "new": noisy(old, 0.5, 1), "near": noisy(old, 5e-4, 2)}
    expected = {}
    for name, state in states.items():
        model.load_state_dict(state, strict=False)
        with torch.no_grad():
            logprobs, _ = token_logprobs(model, torch.tensor([PROMPT]), torch.ones(1, len(PROMPT), dtype=torch.long))
        expected[name] = logprobs[0].tolist()
    model.load_state_dict(states["new"], strict=False)
    at_new = tmp_path_factory.mktemp("model") / "new"
    model.save_pretrained(at_new)
    with ray_session(num_cpus=2, object_store_bytes=128 << 20), asyncio.Runner() as loop:

        async def started() -> Lab:
            engines = [FaultyEngine(path, CONFIG, name=f"sampler {i}") for i, path in enumerate((tiny, at_new))]
            await asyncio.gather(*(engine.ready() for engine in engines))
            return Lab(loop, *engines, states, expected)

        lab = loop.run(started())
        lab.fresh = lab.tokens(lab.other)
        yield lab
        loop.run(lab.engine.close())
        loop.run(lab.other.close())


@pytest.fixture
def probe(lab: Lab) -> Probe:
    """A probe that has seen the engine right with the old weights."""
    lab.loop.run(lab.engine.misbehave(""))
    lab.publish(lab.payload(lab.states["old"]))
    probe = Probe(PROMPT, TOLERANCE, ROUNDING, 60.0)
    assert lab.probe(probe, "old") < ROUNDING
    return probe


def change(lab: Lab, one: str, other: str) -> float:
    return max(abs(a - b) for a, b in zip(lab.expected[one], lab.expected[other], strict=True))


def swapped(state: State) -> State:
    names = {name: name.replace("layers.0.", "layers.x.").replace("layers.1.", "layers.0.") for name in state}
    return {name: state[other.replace("layers.x.", "layers.1.")] for name, other in names.items()}


def with_part(state: State, other: State, part: str) -> State:
    return {name: other[name] if part in name else tensor for name, tensor in state.items()}


def scaled(state: State, part: str, factor: float) -> State:
    return {name: tensor * factor if part in name else tensor for name, tensor in state.items()}


# Streams ---------------------------------------------------------------------------------------------------------


def test_a_stream_brings_the_trainers_weights(lab: Lab, probe: Probe) -> None:
    lab.stream(lab.states["new"])
    assert lab.engine.weight_version == lab.version
    assert lab.probe(probe, "new") < ROUNDING
    assert lab.tokens() == lab.fresh


def test_wrong_weights_of_a_stream_are_noticed_by_the_probe(lab: Lab, probe: Probe) -> None:
    lab.stream(swapped(lab.states["new"]))
    with pytest.raises(ProbeError, match="sampler 0"):
        lab.probe(probe, "new")
    lab.stream(lab.states["new"])
    assert lab.probe(probe, "new") < ROUNDING


@pytest.mark.long  # rollout/tests/samplers/vllm/test_streams.py finds the damage, and the late bucket below recovers so
def test_damage_ends_an_update_and_the_next_one_recovers(lab: Lab, probe: Probe) -> None:
    def flip(bucket: Bucket, slot: torch.Tensor) -> None:
        if bucket.number == 1:
            slot[9] ^= 1

    with pytest.raises(BadPayloadError, match=rf"version {lab.version + 1}: the bytes of model.* arrived damaged"):
        lab.stream(lab.states["old"], flip)
    with pytest.raises(WeightsUnknownError, match="sampler 0"):
        lab.tokens()
    lab.stream(lab.states["new"])
    assert lab.probe(probe, "new") < ROUNDING
    assert lab.tokens() == lab.fresh


@pytest.mark.long  # the sync from ZeRO-3 below has an engine that dies at a bucket
@pytest.mark.parametrize("stage", ["begin", "bucket 1", "finish"])
def test_an_engine_that_dies_in_a_stream_restarts_with_the_trainers_weights(lab: Lab, probe: Probe, stage: str) -> None:
    lab.loop.run(lab.engine.misbehave(f"dies at {stage}"))
    restarts = lab.engine.restarts
    lab.stream(lab.states["new"])
    assert (lab.engine.restarts, lab.engine.weight_version) == (restarts + 1, lab.version)
    assert lab.probe(probe, "new") < ROUNDING
    assert lab.tokens() == lab.fresh


@pytest.mark.long  # a missed deadline and the blocked sampler after it are tried below without streams
def test_a_bucket_that_is_not_answered_ends_the_update_in_time(lab: Lab, probe: Probe) -> None:
    lab.loop.run(lab.engine.misbehave("late at bucket 1"))
    lab.deadline_s = 0.5
    with pytest.raises(SyncTimeoutError, match=rf"version {lab.version + 1}, .*bucket.* took longer than 0\.5 s"):
        lab.stream(lab.states["old"])
    lab.deadline_s = 60.0
    with pytest.raises(WeightsUnknownError, match="sampler 0 did not confirm"):
        lab.tokens()
    lab.loop.run(lab.engine.misbehave(""))
    # It has parts of two versions: another update ends it, so that it restarts.
    lab.stream(lab.states["new"])
    assert lab.probe(probe, "new") < ROUNDING
    assert lab.tokens() == lab.fresh


def test_a_sync_from_zero_3_goes_by_stream_and_its_copy_restores_an_engine_that_dies_meanwhile(
    lab: Lab, probe: Probe, alone: Any, tiny: Path
) -> None:
    sampler = CONFIG.model_dump(include=CONFIG.model_fields_set)
    config = TrainerConfig.model_validate(
        {"run": {"dir": "unused"}, "policy": {"path": tiny, "dtype": "float32"}, "zero": {"stage": 3},
         "rollout": {"sampler": sampler, "sampling": {"max_tokens": 24}}, "sync": {"gather_elements": 20_000}}
    )  # fmt: skip
    engine = ZeroEngine(
        load_policy(tiny, "float32").model, zero=config.zero, optimizer=config.optimizer, ranks=alone, dtype="float32"
    )
    pool = SamplerPool([lab.engine])
    own = Probe(PROMPT, TOLERANCE, ROUNDING, 60.0)
    link = SamplerLink(pool, lab.loop, [own], deadline_s=60.0, dtype="float32")
    lab.stream(lab.states["new"])
    lab.version += 1
    lab.loop.run(lab.engine.misbehave("dies at bucket 0"))
    restarts = lab.engine.restarts
    done = WeightSync(config, engine, alone, link, Transport("device", "shared memory")).send(lab.version)
    assert done.gap < ROUNDING
    assert set(done.figures) == {f"sync_{phase}_s" for phase in ("gather", "send", "load", "verify", "probe")}
    assert (lab.engine.restarts, lab.engine.weight_version) == (restarts + 1, lab.version)
    # The probe of before is of another process: it sees that the weights are the trainer's again.
    assert lab.probe(probe, "old") < ROUNDING


# Wrong -----------------------------------------------------------------------------------------------------------

WRONG = {
    "the weights of before": lambda states: states["old"],
    "two layers swapped": lambda states: swapped(states["new"]),
    "one tensor of before": lambda states: with_part(states["new"], states["old"], "layers.1.mlp.down_proj"),
    "one tensor scaled": lambda states: scaled(states["new"], "layers.0.self_attn.v_proj", 1.1),
    "rounded to bf16": lambda states: {name: t.bfloat16().float() for name, t in states["new"].items()},
}


OF_EVERY_RUN = ("two layers swapped", "one tensor scaled", "one layer of before")
"""All weights, one tensor, and less than the tolerance; the others are `long`."""


def cases(names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=[pytest.mark.long] * (name not in OF_EVERY_RUN)) for name in names]


@pytest.mark.parametrize("case", cases(WRONG))
def test_wrong_weights_of_the_right_version_are_noticed(lab: Lab, probe: Probe, case: str) -> None:
    lab.publish(lab.payload(WRONG[case](lab.states)))
    with pytest.raises(ProbeError, match=r"sampler 0"):
        lab.probe(probe, "new")
    lab.recovers(probe)


SMALL = {
    "the weights of before": lambda states: states["old"],
    "one layer of before": lambda states: with_part(states["near"], states["old"], LAYER),
}


@pytest.mark.parametrize("case", cases(SMALL))
def test_kept_weights_are_noticed_though_the_update_is_smaller_than_the_tolerance(
    lab: Lab, probe: Probe, case: str
) -> None:
    assert change(lab, "old", "near") < TOLERANCE
    lab.publish(lab.payload(SMALL[case](lab.states)))
    with pytest.raises(ProbeError, match=r"sampler 0"):
        lab.probe(probe, "near")
    lab.publish(lab.payload(lab.states["near"]))
    assert lab.probe(probe, "near") < ROUNDING
    lab.recovers(probe)


def test_weights_of_another_type_are_not_sent(lab: Lab, probe: Probe) -> None:
    before = lab.tokens()
    narrow = {name: t.bfloat16() for name, t in lab.states["new"].items()}
    with pytest.raises(SyncError, match=r"model\.embed_tokens\.weight \(bfloat16\), but the policy trains in float32"):
        lab.publish(lab.payload(narrow))
    assert lab.tokens() == before
    lab.recovers(probe)


def test_a_tensor_that_changes_after_the_payload_was_made_is_refused(lab: Lab, probe: Probe) -> None:
    before = lab.tokens()
    payload = lab.payload(lab.states["new"])
    entry = next(entry for entry in payload.manifest if "layers.1.mlp.up_proj" in entry.name)
    payload.data[entry.offset] ^= 1
    with pytest.raises(BadPayloadError, match=r"layers\.1\.mlp\.up_proj\.weight are damaged"):
        lab.publish(payload)
    assert lab.tokens() == before
    lab.recovers(probe)


# Partial ---------------------------------------------------------------------------------------------------------


def test_a_payload_without_a_tensor_is_refused(lab: Lab, probe: Probe) -> None:
    before = lab.tokens()
    payload = lab.payload(lab.states["new"])
    part = replace(payload, manifest=tuple(e for e in payload.manifest if "layers.1.mlp.up_proj" not in e.name))
    with pytest.raises(BadPayloadError, match=r"lacks model\.layers\.1\.mlp\.up_proj\.weight"):
        lab.publish(part)
    assert lab.tokens() == before
    lab.recovers(probe)


@pytest.mark.parametrize("weights", [pytest.param("new", marks=pytest.mark.long), "near"])
def test_an_output_layer_that_was_not_packed_is_noticed(lab: Lab, probe: Probe, weights: str) -> None:
    lab.loop.run(lab.engine.misbehave("output layer not packed"))
    lab.publish(lab.payload(lab.states[weights]))
    with pytest.raises(ProbeError, match="sampler 0 gives token"):
        lab.probe(probe, weights)
    lab.recovers(probe)


def test_a_prefix_cache_that_was_kept_is_noticed(lab: Lab, probe: Probe) -> None:
    lab.loop.run(lab.engine.misbehave("cache kept"))
    lab.publish(lab.payload(lab.states["new"]))
    with pytest.raises(ProbeError, match=r"sampler 0 samples token \d+ .* Its prefix cache"):
        lab.probe(probe, "new")
    assert lab.tokens() != lab.fresh
    lab.recovers(probe)


@pytest.mark.long  # each restarts an engine; rollout/tests/samplers/vllm/test_failed_updates.py does without
@pytest.mark.parametrize(("fault", "cause"), [("cache refused", "cached prefixes"), ("", "the bytes end here")])
def test_an_update_that_stops_half_way_ends_the_engine(lab: Lab, probe: Probe, fault: str, cause: str) -> None:
    lab.recovers(probe)
    lab.loop.run(lab.engine.misbehave(fault))
    payload = lab.payload(lab.states["old"])
    with pytest.raises(SamplerDiedError, match=rf"weight version {payload.version} stopped half way .*{cause}"):
        lab.publish(payload if fault else torn(payload, after=9))
    for ask in (lab.tokens, lambda: lab.publish(lab.payload(lab.states["new"]))):
        with pytest.raises(SamplerDiedError, match="stopped half way"):
            ask()
    lab.loop.run(lab.engine.restart())
    assert lab.engine.weight_version == payload.version - 1
    assert lab.tokens() == lab.fresh


# Late ------------------------------------------------------------------------------------------------------------


def test_an_engine_that_misses_the_deadline_samples_nothing_until_it_has_whole_weights(lab: Lab, probe: Probe) -> None:
    lab.loop.run(lab.engine.misbehave("late"))
    with pytest.raises(SyncTimeoutError, match=rf"weight version {lab.version + 1} took longer than 0\.2 s"):
        lab.publish(lab.payload(lab.states["new"]), deadline_s=0.2)
    with pytest.raises(WeightsUnknownError, match="sampler 0 did not confirm"):
        lab.tokens()
    with pytest.raises(WeightsUnknownError):
        lab.probe(probe, "new")
    lab.recovers(probe)


def test_an_engine_that_answers_before_it_has_loaded_is_noticed(lab: Lab, probe: Probe) -> None:
    lab.loop.run(lab.engine.misbehave("early"))
    lab.publish(lab.payload(lab.states["new"]))
    assert lab.engine.weight_version == lab.version
    with pytest.raises(ProbeError, match="sampler 0 gives every token the same as before"):
        lab.probe(probe, "new")

    async def caught_up() -> None:
        await lab.engine.actor.catch_up.remote()

    lab.loop.run(caught_up())
    assert lab.probe(probe, "new") < ROUNDING
    assert lab.tokens() == lab.fresh


def test_one_engine_of_two_without_the_update_is_named(lab: Lab, probe: Probe) -> None:
    pool = SamplerPool([lab.engine, lab.other])
    lab.publish(lab.payload(lab.states["old"]), pool)
    both = Probe(PROMPT, TOLERANCE, ROUNDING, 60.0)
    lab.probe(both, "old", lab.engine, lab.other)
    lab.loop.run(lab.other.misbehave("early"))
    lab.publish(lab.payload(lab.states["new"]), pool)
    with pytest.raises(ProbeError, match="sampler 1 gives every token the same as before"):
        lab.probe(both, "new", lab.engine, lab.other)

    lab.loop.run(lab.other.misbehave("late"))
    lab.other.config = CONFIG.model_copy(update={"update_timeout_s": 0.2})
    before = pool.weight_version
    with pytest.raises(DeadlinePassedError, match="sampler 1 to load new weights"):
        lab.publish(lab.payload(lab.states["old"]), pool)
    assert (lab.engine.weight_version, pool.weight_version) == (before + 1, before)
    with pytest.raises(SyncError, match=rf"weight version {before + 1} a sampler samples with version {before}"):
        sync.check_version(pool, before + 1)
    with pytest.raises(WeightsUnknownError, match="sampler 1"):
        lab.tokens(lab.other)

    lab.loop.run(lab.other.misbehave(""))
    lab.other.config = CONFIG
    lab.publish(lab.payload(lab.states["new"]), pool)
    assert lab.probe(both, "new", lab.engine, lab.other) < ROUNDING
    assert lab.tokens(lab.engine) == lab.tokens(lab.other) == lab.fresh


def test_nothing_is_sampled_from_the_first_weights_while_an_engine_restarts(lab: Lab, probe: Probe) -> None:
    import ray

    pool = SamplerPool([lab.engine])
    lab.recovers(probe)

    async def go() -> list[int]:
        lab.engine.newest, lab.engine.fault = asyncio.Queue(), "held"
        process = psutil.Process(await lab.engine.actor.__ray_call__.remote(lambda _: os.getpid()))
        ray.kill(lab.engine.actor)
        # That returns before it has ended: it may still answer, and nobody would restart it.
        assert not (await asyncio.to_thread(psutil.wait_procs, [process], 60))[1]
        requests = [asyncio.ensure_future(pool.generate(PROMPT, Sampling(max_tokens=1)))]
        fresh = await asyncio.wait_for(lab.engine.newest.get(), 200)
        # It takes calls from now on. It begins with the weights of its directory, and the update is held.
        requests += [asyncio.ensure_future(pool.generate(PROMPT, Sampling(max_tokens=1))) for _ in range(3)]
        await asyncio.sleep(0)
        await fresh.release.remote()
        return [version for one in await asyncio.gather(*requests) for version in one.weight_versions]

    restarts = lab.engine.restarts
    assert lab.loop.run(go()) == [lab.version] * 4
    lab.engine.newest, lab.engine.fault = None, ""
    assert lab.engine.restarts == restarts + 1
    assert lab.tokens() == lab.fresh
