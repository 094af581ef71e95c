"""Builds the memory plan: what a configuration needs on each GPU and on the host."""

from dataclasses import dataclass, field
from functools import partial

from warpsmith.policy.config import PolicyConfig
from warpsmith.rollout.environments.registry import max_turns
from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.config.parallel import SPLIT_TYPES, ParallelSection
from warpsmith.trainer.config.sections import ZeroSection
from warpsmith.trainer.config.sft import SftConfig
from warpsmith.trainer.errors import ConfigError
from warpsmith.trainer.planning.disk import WIDTH, disk_need
from warpsmith.trainer.planning.machines import Machine
from warpsmith.trainer.planning.parts import Device, Part
from warpsmith.trainer.planning.places import Places, misplaced, places_of
from warpsmith.trainer.planning.sampler import Cache, cpu_parts, cuda_parts, token_bytes
from warpsmith.trainer.planning.shapes import ModelShape
from warpsmith.trainer.planning.sizes import GIB, gib
from warpsmith.trainer.planning.training import Training, host_parts, rank_parts, software_parts

_RANK_HOST = 2 * GIB
_SAMPLER_HOST = 4 * GIB
_EVALUATOR_HOST = GIB
_WORKER_HOST = GIB // 2
_SPARE = 0.03
"""Share of a GPU that torch's allocator leaves unused between its blocks."""


@dataclass
class MemoryPlan:
    """The memory needs of a run.

    Attributes:
        machine: the machine it is planned for.
        shape: shape of the model.
        gpus: one device per GPU.
        host: the host.
        facts: figures that do not depend on time, by name.
        misfits: what does not fit, one sentence each; empty if the run fits.
    """

    machine: Machine
    shape: ModelShape
    gpus: list[Device]
    host: Device
    facts: dict[str, float] = field(default_factory=dict)
    misfits: list[str] = field(default_factory=list)

    @property
    def fits(self) -> bool:
        """Whether the run fits."""
        return not self.misfits


def plan(
    config: TrainerConfig | SftConfig, shape: ModelShape, machine: Machine, processes: int | None = None
) -> MemoryPlan:
    """Return the plan of a run.

    Args:
        config: its configuration.
        shape: shape of the policy.
        machine: where it will run. Without GPUs the ranks train on its host.
        processes: number of ranks if the configuration does not name their GPUs; by default one per GPU, or one.
    """
    gpus = [Device(f"GPU {number}", machine.gpu_bytes) for number in range(machine.gpus)]
    made = MemoryPlan(machine, shape, gpus, Device("host", machine.host_bytes))
    places = places_of(config, machine.gpus, processes)
    made.misfits += misplaced(config, places, machine.gpus, machine.name)
    ranks = len(places.train) or processes or 1
    made.misfits += _undealt(config.parallel, shape, ranks)
    _place_training(made, _training(config, shape, ranks, on_gpu=bool(places.train)), places)
    made.facts |= _disk_facts(config, made)
    if isinstance(config, TrainerConfig):
        _place_sampling(made, config, places)
        _place_evaluation(made, config, places)
        made.facts |= _batch_facts(config)
    made.misfits += dict.fromkeys(_too_full(device) for device in (*gpus, made.host) if not device.fits)
    return made


def _undealt(parallel: ParallelSection, shape: ModelShape, ranks: int) -> list[str]:
    """Return what keeps ranks from sharing layers and rows, one sentence each."""
    sizes = {
        "model_type": SPLIT_TYPES[0],  # Any shape here is that of one of them.
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "intermediate_size": shape.intermediate,
    }
    found = []
    for check in (partial(parallel.check_world, ranks), partial(parallel.check_model, sizes, shape.name)):
        try:
            check()
        except ConfigError as error:
            found.append(f"{error.message} {error.remedy}")
    return found


def _training(config: TrainerConfig | SftConfig, shape: ModelShape, ranks: int, *, on_gpu: bool) -> Training:
    policy: PolicyConfig = config.policy
    zero: ZeroSection = config.zero
    if isinstance(config, SftConfig):
        longest, reference, head = config.data.max_tokens, False, False
    else:
        longest = config.rollout.prompt_budget + config.rollout.sampling.max_tokens
        reference, head = config.algorithm.kl is not None, config.algorithm.has_value_head
    return Training(
        shape, WIDTH[policy.dtype], zero, ranks, longest, policy.gradient_checkpointing, policy.attention,
        policy.kernels, policy.lora, reference, head, on_gpu, adapters=max(1, len(policy.adapters)),
        parallel=config.parallel,
    )  # fmt: skip


def _place_training(made: MemoryPlan, run: Training, places: Places) -> None:
    made.host.parts += [*host_parts(run), Part("ranks' processes", run.ranks * _RANK_HOST, assumed=True)]
    if not places.train:
        # Several ranks on one host: each has its own copy of everything.
        made.host.parts += [
            Part(f"{run.ranks} x {part.name}" if run.ranks > 1 else part.name, run.ranks * part.bytes, part.when)
            for part in rank_parts(run)
        ]
    for device in _existing(made, places.train):
        spare = Part("unused by the allocator", int(_SPARE * device.bytes), assumed=True)
        device.parts += [*rank_parts(run), *software_parts(run.ranks), spare]
    made.facts |= {
        "ranks": run.ranks,
        "ranks_per_layer": run.parallel.tensor,
        "ranks_per_row": run.parallel.sequence,
        "parameters": run.shape.parameters,
        "trained_parameters": run.trained,
        "micro_batch_tokens": run.tokens,
        "longest_row_tokens": run.longest,
    }


def _disk_facts(config: TrainerConfig | SftConfig, made: MemoryPlan) -> dict[str, float]:
    # Each of the ranks that share layers writes what it has.
    trained = int(made.facts["trained_parameters"])
    trained += (config.parallel.tensor - 1) * (made.shape.parameters - made.shape.projected)
    need = disk_need(config.checkpoint, config.zero, config.policy.dtype, trained=trained, whole=made.shape.parameters)
    return {"checkpoint_bytes": need.checkpoint, "disk_bytes_at_most": need.total}


def _existing(made: MemoryPlan, numbers: tuple[int, ...]) -> list[Device]:
    return [made.gpus[number] for number in numbers if number < len(made.gpus)]


def _place_sampling(made: MemoryPlan, config: TrainerConfig, places: Places) -> None:
    rollout, sampler, shape = config.rollout, config.rollout.sampler, made.shape
    weights = shape.parameters * WIDTH[config.policy.dtype]
    made.host.parts += [
        Part("rank 0's copies of the weights on their way to the samplers", 2 * weights, "sync"),
        Part("Ray's object store", (256 << 20) + 2 * weights, shared=True),
    ]
    if sampler.device == "cpu":
        parts, cache = cpu_parts(shape, sampler)
        made.host.parts += [Part(p.name, rollout.samplers * p.bytes, p.when, p.assumed) for p in parts]
    else:
        parts, cache = cuda_parts(shape, sampler, made.machine.gpu_bytes)
        for device in _existing(made, places.rollout):
            device.parts += parts
        made.host.parts += [
            Part("samplers' processes", rollout.samplers * _SAMPLER_HOST, assumed=True),
            Part("weights on their way to the samplers", rollout.samplers * weights, "sync", shared=True),
        ]
        _place_streams(made, config, places, weights)
    made.misfits += _of_sampler(made, config, cache)
    made.facts |= {
        "kv_bytes_per_token": token_bytes(shape, sampler) * sampler.tensor_parallel_size,
        "kv_tokens_per_sampler": cache.tokens,
        "kv_full_sequences_per_sampler": round(cache.sequences, 1),
        "sequences_at_once_per_sampler": sampler.max_sequences,
    }


def _place_streams(made: MemoryPlan, config: TrainerConfig, places: Places, weights: int) -> None:
    """Add what weights take on their way from GPU to GPU; a run that falls back to host memory takes less there."""
    if config.sync.transport == "host" or config.device_obstacle is not None:
        return
    buckets = 2 * min(config.sync.bucket_mib << 20, weights)
    for device in _existing(made, places.train[:1]):
        device.parts.append(Part("two buckets of weights on their way to the samplers", buckets, "sync"))
    if config.zero.stage == 3 or config.parallel.tensor > 1 or config.algorithm.max_staleness:
        made.host.parts.append(Part("rank 0's copy of the weights for samplers that restart", weights))


def _of_sampler(made: MemoryPlan, config: TrainerConfig, cache: Cache) -> list[str]:
    sampler, shape = config.rollout.sampler, made.shape
    if shape.heads % sampler.tensor_parallel_size:
        return [
            f"{shape.heads} attention heads cannot be split over {sampler.tensor_parallel_size} GPUs "
            "(rollout.sampler.tensor_parallel_size)."
        ]
    if sampler.device == "cuda" and not made.machine.gpus:
        return []
    if cache.tokens >= sampler.max_model_len:
        return []
    on_gpu = "gpu_kv_cache_gib" if sampler.gpu_kv_cache_gib else f"{sampler.gpu_memory_utilization:g} of the GPU"
    share = on_gpu if sampler.device == "cuda" else "kv_cache_gib"
    return [
        f"A sampler's KV cache holds {cache.tokens:,} tokens, but one sequence can have {sampler.max_model_len:,}: "
        f"{share} leaves {gib(max(cache.bytes, 0))} GiB for it, and vLLM would not start."
    ]


def _place_evaluation(made: MemoryPlan, config: TrainerConfig, places: Places) -> None:
    evaluator, evaluation = config.evaluator, config.rollout.evaluation
    if evaluation.type == "server":
        return
    count = evaluation.actors if evaluation.type == "ray" else 1
    made.host.parts += [
        Part("evaluators: judges and zygotes", count * evaluator.most_judges * _EVALUATOR_HOST, assumed=True),
        Part("evaluators: workers", count * (evaluator.slots + 1) * _WORKER_HOST, assumed=True),
    ]
    contexts = evaluator.most_judges + 3 * evaluator.slots
    for device in _existing(made, places.evaluation):
        device.parts += [
            Part("evaluator: contexts", contexts * GIB // 2, assumed=True),
            Part("evaluator: inputs and outputs, at most", 2 * evaluator.max_tensor_bytes),
        ]


def _batch_facts(config: TrainerConfig) -> dict[str, float]:
    algorithm, rollout = config.algorithm, config.rollout
    trajectories = algorithm.prompts_per_step * algorithm.samples_per_prompt
    turns = max_turns(rollout)
    return {
        "trajectories_per_step": trajectories,
        "turns_per_step_at_most": trajectories * turns,
        "completion_tokens_per_step_at_most": trajectories * turns * rollout.sampling.max_tokens,
    }


def _too_full(device: Device) -> str:
    largest = sorted(device.parts, key=lambda part: -part.bytes)[:2]
    what = " and ".join(f"{part.name} ({gib(part.bytes)})" for part in largest)
    return (
        f"A {device.name.partition(' ')[0]} would need {gib(device.peak)} GiB and has {gib(device.bytes)}; "
        f"most of it is {what}."
    )
