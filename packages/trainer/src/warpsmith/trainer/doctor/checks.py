"""The list of checks before a run: `doctor` reports every finding, the run's own command stops at errors.

There are two batches. The first needs no torch, whose import takes longer than all its checks, and the command runs it
before it starts ranks. The second is run by rank 0 before it starts Ray, samplers or evaluators.
"""

from collections.abc import Iterator

from warpsmith.policy.kernels import LIGER
from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.config.sft import SftConfig
from warpsmith.trainer.doctor import files, inputs, packages, services
from warpsmith.trainer.doctor.check import Check

Config = SftConfig | TrainerConfig

DIRECTORY, POLICY, CHAT, SOURCES = "run directory", "policy's files", "chat template", "sources"
SERVERS = "evaluation servers"


def checks_without_torch(config: Config, resume: bool) -> list[Check]:
    """Return the first batch: files, disk, packages, and the services that a run uses."""
    return [*_of_files(config, resume), *_of_services(config)]


def _of_files(config: Config, resume: bool) -> Iterator[Check]:
    yield Check(DIRECTORY, lambda: files.directory(config, resume))
    if isinstance(config, TrainerConfig):
        yield Check("environment", lambda: files.environment(config))
        yield Check("reward", lambda: files.reward(config))
    yield Check(POLICY, lambda: files.policy_files(config))
    if (named := files.reference_of(config)) is not None:
        yield Check("reference policy", lambda: files.reference(named, config.policy.path), (POLICY,))
    if config.parallel.team > 1:
        yield Check("split over ranks", lambda: files.split(config), (POLICY,))
    if (lora := config.policy.lora) is not None:
        yield Check("adapters", lambda: files.adapter_layers(config.policy, lora), (POLICY,))
    if resume:
        yield Check("base of the checkpoint", lambda: files.base(config), (DIRECTORY, POLICY))
    if isinstance(config, TrainerConfig):
        yield Check("model length", lambda: files.model_length(config), (POLICY,))
    needs = (POLICY, "adapters", *([DIRECTORY] if resume else []))
    yield Check("disk", lambda: files.disk(config, resume), needs)
    if isinstance(config, SftConfig) and not resume:
        yield Check(SOURCES, lambda: files.sources(config))


def _of_services(config: Config) -> Iterator[Check]:
    yield Check("packages beside torch", packages.beside_torch)
    yield Check("W&B", lambda: services.wandb(config))
    if config.trackers.otel:
        yield Check("spans", services.spans)
    if isinstance(config, SftConfig):
        return
    yield Check("GPUs of the file", lambda: services.named_gpus(config))
    yield Check("Ray's token", lambda: services.ray_token(config))
    evaluation = config.rollout.evaluation
    if evaluation.type == "server":
        yield Check(SERVERS, lambda: files.servers(evaluation, config.evaluator))
    else:
        yield Check("containment of candidates", lambda: services.containment(config))


def checks_with_torch(config: Config) -> list[Check]:
    """Return the second batch: tokenizers, templates, kernels, and the length of every prompt in tokens."""
    return list(_of_models(config))


def _of_models(config: Config) -> Iterator[Check]:
    if config.policy.lora is not None and config.policy.lora.bits is not None:
        yield Check("4-bit weights", inputs.quantization)
    yield Check(
        CHAT, lambda: inputs.template(config.policy.path, config.policy.template_kwargs, config.policy.chat_template)
    )
    yield Check("answers of the template", lambda: inputs.answers(config), (CHAT,))
    if (named := files.reference_of(config)) is not None:
        yield Check("reference policy's chat template", lambda: inputs.template(named, {}, config.policy.chat_template))
    if config.policy.kernels == LIGER:
        directories = [config.policy.path, *([] if named is None else [named])]
        yield Check("fused kernels", lambda: inputs.kernels(directories))
    if isinstance(config, TrainerConfig):
        yield Check("problems", lambda: inputs.problems(config))
        yield Check("prompts", lambda: inputs.prompts(config), ("problems", CHAT))
