"""How far rounding and wrong weights move the probe of a weight sync apart, and what finds each injected fault.

    python benchmarks/weight_probe.py --model models/smollm2-135m --device cuda --out results/weight_probe_h100.json
    python benchmarks/weight_probe.py --model runs/demo/sft/final_model --device cpu --dtype bfloat16

A real vLLM engine in its actor and the trainer's own log-probabilities. Weights change by Adam-like steps: each weight
by `size`, up or down. For each size, right updates first, then each fault on a fresh probe that has seen the engine
right. The result lists the statistics of every right update and of every fault, and who found it: the payload's
checksum or table, the reported version, the deadline, or the probe.
"""

import argparse
import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch

sys.path.insert(0, str(Path(__file__).parent))
from _machine import describe, need_gpu, write_result

from warpsmith.policy.loading import load_policy
from warpsmith.policy.logprobs import token_logprobs
from warpsmith.records.errors import WarpsmithError
from warpsmith.rollout.cluster.session import ray_session
from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.errors import BadPayloadError
from warpsmith.rollout.samplers.ray_actor import RemoteSampler, SamplerActor
from warpsmith.rollout.samplers.weights.payload import WeightPayload
from warpsmith.trainer.errors import ProbeError, SyncError, SyncTimeoutError
from warpsmith.trainer.weights import sync
from warpsmith.trainer.weights.gaps import Gaps
from warpsmith.trainer.weights.probe import Probe, is_exact, rounding_for, tolerance_for

State = dict[str, torch.Tensor]

SIZES: Final = (1e-5, 1e-4, 1e-3)
RIGHT_UPDATES: Final = 8
DEADLINE_S: Final = 120.0
LATE_S: Final = 5.0
KEPT_BITS: Final = 3
"""Bits of the mantissa that a rounded weight keeps; bfloat16 has seven."""


@dataclass
class Lab:
    """One engine, the trained model, and the tokens of the probe."""

    loop: asyncio.Runner
    engine: RemoteSampler
    model: torch.nn.Module
    ids: list[int]
    dtype: str
    version: int = 0

    def payload(self, state: Mapping[str, torch.Tensor]) -> WeightPayload:
        self.version += 1
        return WeightPayload.from_state_dict(self.version, state)

    def publish(self, payload: WeightPayload, deadline_s: float = DEADLINE_S) -> None:
        self.loop.run(sync.publish(payload, self.engine, deadline_s, self.dtype))

    def probe(self) -> Probe:
        """Return a probe that has not seen anything."""
        both = (self.dtype, self.dtype)
        return Probe(self.ids, tolerance_for(*both), rounding_for(*both), DEADLINE_S, is_exact(*both))

    def expected(self, state: State) -> list[float]:
        """Return the trainer's log-probabilities of the probe's tokens with these weights."""
        self.model.load_state_dict(state, strict=False)
        device = next(self.model.parameters()).device
        ids = torch.tensor([self.ids], device=device)
        with torch.no_grad():
            logprobs, _ = token_logprobs(self.model, ids, torch.ones_like(ids))
        return [float(value) for value in logprobs[0].cpu()]

    def statistics(self, state: State) -> dict[str, float]:
        """Return the gaps between the engine as it is and the trainer with these weights."""
        found = self.loop.run(self.engine.score(self.ids))
        return asdict(Gaps.of(self.expected(state)[1:], found[1:]))

    def misbehave(self, fault: str) -> None:
        self.loop.run(_misbehave(self.engine, fault))


async def _misbehave(engine: RemoteSampler, fault: str) -> None:
    await engine.actor.misbehave.remote(fault)


def faulty_actor() -> type:
    """Return the class of the actor; made in here, it goes to the actor's process by value."""

    class Faulty(SamplerActor):
        """An engine's actor that does an update wrongly on request."""

        fault = ""
        whole: Any = None

        async def misbehave(self, fault: str) -> None:
            self.fault = fault
            kind = type(self.sampler.vllm) if hasattr(self.sampler, "vllm") else _in_process_engine()
            self.whole = self.whole or kind.reset_prefix_cache
            kind.reset_prefix_cache = self.whole
            if fault == "prefix cache kept":
                kind.reset_prefix_cache = _kept_async if hasattr(self.sampler, "vllm") else _kept

        async def update_weights(self, payload: WeightPayload) -> int:
            if self.fault == "late":
                await asyncio.Event().wait()
            if self.fault == "early version":
                return payload.version
            return await super().update_weights(payload)

    return Faulty


def _in_process_engine() -> Any:
    from vllm.v1.engine.llm_engine import LLMEngine

    return LLMEngine


def _kept(engine: Any, **_: Any) -> bool:
    return True


async def _kept_async(engine: Any, **_: Any) -> bool:
    return True


class FaultyEngine(RemoteSampler):
    """The handle of such an actor."""

    def _new_actor(self) -> Any:
        import ray

        actor = ray.remote(faulty_actor()).options(max_concurrency=64, **self._options)
        return actor.remote(str(self.path.resolve()), self.config.model_dump(), self._first_version)


# Weights -------------------------------------------------------------------------------------------------------------


def stepped(state: State, size: float, seed: int) -> State:
    """Return weights after a step of `size` per weight, up or down, as Adam's early steps are."""
    generator = torch.Generator().manual_seed(seed)
    signs = {name: torch.randint(2, t.shape, generator=generator).mul_(2).sub_(1) for name, t in state.items()}
    return {name: (t.float() + size * signs[name]).to(t.dtype) if t.ndim > 1 else t for name, t in state.items()}


def rounded(state: State) -> State:
    """Return weights with KEPT_BITS bits of mantissa, as a detour through 8 bits leaves them."""
    found = {}
    for name, tensor in state.items():
        mantissa, exponent = torch.frexp(tensor.float())
        scale = float(1 << (KEPT_BITS + 1))
        found[name] = torch.ldexp((mantissa * scale).round() / scale, exponent).to(tensor.dtype)
    return found


def with_layers(state: State, other: State, layers: Sequence[int]) -> State:
    """Return weights with some layers of others."""
    parts = tuple(f"layers.{layer}." for layer in layers)
    return {name: other[name] if any(part in name for part in parts) else t for name, t in state.items()}


def swapped(state: State, one: int, other: int) -> State:
    """Return weights with two layers swapped."""
    turn = {f"layers.{one}.": f"layers.{other}.", f"layers.{other}.": f"layers.{one}."}

    def source(name: str) -> str:
        return next((name.replace(a, b) for a, b in turn.items() if a in name), name)

    return {name: state[source(name)] for name in state}


def wrong_weights(depth: int) -> dict[str, Callable[[State, State], State]]:
    """Return the faults of a payload's content, from the old weights and the new ones."""
    return {
        "all weights kept": lambda old, new: old,
        "half of the layers kept": lambda old, new: with_layers(new, old, range(depth // 2)),
        "one layer kept": lambda old, new: with_layers(new, old, [depth // 2]),
        "update added twice": lambda old, new: {
            name: (2 * new[name].float() - old[name].float()).to(new[name].dtype) for name in new
        },
        "two layers swapped": lambda old, new: swapped(new, depth // 3, depth // 2),
        "one tensor scaled by 1.1": lambda old, new: {
            name: t * 1.1 if f"layers.{depth // 2}.self_attn.v_proj" in name else t for name, t in new.items()
        },
        f"rounded to {KEPT_BITS} bits": lambda old, new: rounded(new),
    }


# Measurements --------------------------------------------------------------------------------------------------------


def right_updates(lab: Lab, base: State, size: float) -> list[dict[str, Any]]:
    """Return the statistics of right updates, and whether a probe refused one."""
    found, probe, state = [], lab.probe(), base
    for number in range(RIGHT_UPDATES + 1):
        lab.publish(lab.payload(state))
        found.append({"update": number, "refused": _refusal(lab, probe, state), **lab.statistics(state)})
        state = stepped(state, size, number)
    return found


def _refusal(lab: Lab, probe: Probe, state: State) -> str:
    try:
        lab.loop.run(probe.compare([lab.engine], lab.expected(state)))
    except ProbeError as error:
        return error.message
    return ""


def settled(lab: Lab, base: State) -> Probe:
    """Return a probe that has seen the engine right with the old weights."""
    lab.misbehave("")
    probe = lab.probe()
    lab.publish(lab.payload(base))
    refusal = _refusal(lab, probe, base)
    if refusal:
        sys.exit(f"The probe refuses right weights: {refusal}")
    return probe


def wrong_content(lab: Lab, base: State, size: float, depth: int) -> list[dict[str, Any]]:
    """Return who found each fault of a payload's content, with the statistics."""
    found = []
    new = stepped(base, size, 0)
    for name, make in wrong_weights(depth).items():
        probe = settled(lab, base)
        lab.publish(lab.payload(make(base, new)))
        refusal = _refusal(lab, probe, new)
        found.append(
            {"fault": name, "found_by": "probe" if refusal else "nobody", "says": refusal, **lab.statistics(new)}
        )
        print(f"size {size:g}, {name}: {found[-1]['found_by']}, mean gap {found[-1]['mean']:.3g}", flush=True)
    return found


def wrong_transfer(lab: Lab, base: State) -> list[dict[str, str]]:
    """Return who found each fault of the transfer."""
    new = stepped(base, SIZES[-1], 0)

    def damaged(payload: WeightPayload) -> WeightPayload:
        payload.data[payload.manifest[len(payload.manifest) // 2].offset] ^= 1
        return payload

    def partial(payload: WeightPayload) -> WeightPayload:
        return replace(payload, manifest=payload.manifest[:-1])

    cases: dict[str, Callable[[], None]] = {
        "a damaged byte": lambda: lab.publish(damaged(lab.payload(new))),
        "a tensor missing": lambda: lab.publish(partial(lab.payload(new))),
        "version before its weights": lambda: _after(lab, "early version", new),
        "prefix cache kept": lambda: _after(lab, "prefix cache kept", new),
        "an update that never ends": lambda: _late(lab, new),
    }
    found = []
    for name, run in cases.items():
        probe = settled(lab, base)
        by, says = _found_by(run)
        if by == "nobody":
            says = _refusal(lab, probe, new)
            by = "probe" if says else by
        found.append({"fault": name, "found_by": by, "says": says})
        print(f"{name}: {by}", flush=True)
        if by == "deadline":
            lab.loop.run(lab.engine.restart())
    return found


def _after(lab: Lab, fault: str, new: State) -> None:
    lab.misbehave(fault)
    lab.publish(lab.payload(new))


def _late(lab: Lab, new: State) -> None:
    lab.misbehave("late")
    lab.publish(lab.payload(new), LATE_S)


def _found_by(run: Callable[[], None]) -> tuple[str, str]:
    try:
        run()
    except BadPayloadError as error:
        return "checksum or table of contents", error.message
    except SyncTimeoutError as error:
        return "deadline", error.message
    except SyncError as error:
        return "version", error.message
    except WarpsmithError as error:
        return type(error).__name__, error.message
    return "nobody", ""


def measure(options: argparse.Namespace) -> dict[str, Any]:
    policy = load_policy(options.model, options.dtype)
    model = policy.model.to(options.device).eval()
    base = {name: parameter.detach().cpu().clone() for name, parameter in model.named_parameters()}
    depth = int(model.config.num_hidden_layers)
    ids = policy.chat.tokenizer(Path(__file__).read_text(encoding="utf-8")).input_ids[: options.tokens]
    more = {"gpu_memory_utilization": 0.25, "gpu_kv_cache_gib": 2} if options.device == "cuda" else {}
    config = SamplerConfig(
        device=options.device, dtype=options.dtype, max_model_len=options.tokens + 64, max_sequences=8, **more
    )
    size = 4 * sum(tensor.nbytes for tensor in base.values()) + (256 << 20)
    with ray_session(object_store_bytes=size) as _, asyncio.Runner() as loop:
        engine = FaultyEngine(options.model, config, name="sampler 0")
        loop.run(engine.ready())
        lab = Lab(loop, engine, model, list(ids), options.dtype)
        by_size = {
            f"{one:g}": {"right": right_updates(lab, base, one), "wrong": wrong_content(lab, base, one, depth)}
            for one in options.sizes
        }
        transfer = wrong_transfer(lab, base)
        loop.run(engine.close())
    return {"tokens": len(ids), "dtype": options.dtype, "layers": depth, "by_size": by_size, "transfer": transfer}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a Hugging Face directory")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--tokens", type=int, default=512, help="tokens of the probe")
    parser.add_argument("--sizes", type=float, nargs="+", default=list(SIZES), help="change of a weight by an update")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "weight_probe.json")
    options = parser.parse_args()
    if options.device == "cuda":
        need_gpu()
    found = describe(("torch", "vllm", "transformers", "warpsmith-trainer"))
    measured = measure(options)
    write_result(options.out, found | {"model": options.model.name, "device": options.device} | measured)
    refused = [one["refused"] for size in measured["by_size"].values() for one in size["right"] if one["refused"]]
    if refused:
        sys.exit(f"{len(refused)} right updates were refused: {refused[0]}")


if __name__ == "__main__":
    main()
