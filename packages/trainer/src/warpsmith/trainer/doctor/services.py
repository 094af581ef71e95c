"""Checks of the services that a run uses: W&B, Ray, the evaluator's sandbox."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

from warpsmith.evaluator.config import TIER_STRENGTH, EvaluatorConfig, IsolationTier
from warpsmith.records import tracing
from warpsmith.rollout.cluster.session import check_token
from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.config.sft import SftConfig
from warpsmith.trainer.doctor.finding import Finding
from warpsmith.trainer.errors import ConfigError, ContainmentError, WandbError
from warpsmith.trainer.launch.launcher import gpu_count
from warpsmith.trainer.planning.places import misplaced_gpus, places_of
from warpsmith.trainer.telemetry.step_spans import SERVICE

Config = SftConfig | TrainerConfig

_LOGIN: Final = """
import os
import sys
import wandb
code = 0
try:
    wandb.login(verify=True)
except (wandb.errors.Error, ValueError) as error:
    sys.stdout.write(f"{error}")
    code = 1
sys.stdout.flush()
os._exit(code)  # A normal exit would wait for the server until its own deadlines have passed.
"""
_LOGIN_S: Final = 60.0


def wandb(config: Config) -> Iterator[Finding]:
    """Log in to W&B as the run will; only `online` needs this.

    Raises:
        WandbError: there is no key, the server rejects it, or it cannot be reached.
    """
    mode = config.wandb.mode
    if mode != "online":
        yield Finding("W&B", "ok", f"{mode}; needs no login")
        return
    refusal = _login_refusal()
    if refusal:
        raise WandbError(
            f'wandb.mode is "online", but W&B rejects the login: {refusal}.',
            'Run `wandb login`, set WANDB_API_KEY to a key, or set wandb.mode = "offline".',
        )
    yield Finding("W&B", "ok", "online; the server accepts the login")


def spans() -> Iterator[Finding]:
    """Check that spans can be exported; TracingError if a package is missing, or a variable names what there is not."""
    names = tracing.check(SERVICE)
    yield Finding("spans", "ok", f"exported by {', '.join(names) or 'nothing'}")


def _login_refusal() -> str:
    """Return why a login fails, or an empty string. It is tried in a process without a terminal."""
    # The file's setting overrides WANDB_MODE, under which a login could do nothing.
    environment = {name: value for name, value in os.environ.items() if name != "WANDB_MODE"}
    try:
        ended = subprocess.run(
            [sys.executable, "-c", _LOGIN],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_LOGIN_S, check=False, env=environment,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"no answer within {_LOGIN_S:g} s"
    if not ended.returncode:
        return ""
    said = ended.stdout.strip() or ended.stderr.strip()
    return (said.splitlines() or [f"exit code {ended.returncode}"])[-1].rstrip(".")


def named_gpus(config: TrainerConfig) -> Iterator[Finding]:
    """Check that this machine has as many GPUs as `[placement]`, the samplers and the evaluator need.

    They are counted by their device nodes: asking the driver would leave a context on each.

    Raises:
        ConfigError: one is missing.
    """
    if config.run.ray_address is not None:
        return
    count = gpu_count()
    missing = misplaced_gpus(places_of(config, count), count, "this machine")
    if missing:
        raise ConfigError(
            " ".join(missing),
            "Start the run on a machine with these GPUs, or change [placement]; `warpsmith-trainer plan` on the same "
            "file prints a placement that fits.",
        )
    yield Finding("GPUs of the file", "ok", f"this machine has {count or 'none'}")


def ray_token(config: TrainerConfig) -> Iterator[Finding]:
    """Check the token that Ray authenticates with; RayTokenError if one is needed but missing."""
    yield Finding("Ray's token", "ok", check_token(config.run.ray_address))


def containment(config: TrainerConfig) -> Iterator[Finding]:
    """Compare the tier that the evaluator will reach on this machine with the minimum.

    Evaluators on a cluster can be on other machines, which only its actors can check.

    Raises:
        ContainmentError: it is weaker, or no GPU can be used under it.
    """
    evaluator = config.placement.evaluator(config.evaluator)
    tier, least = reachable_tier(evaluator), evaluator.minimum_isolation
    seen = f"{tier}; the minimum is {least}"
    elsewhere = config.rollout.evaluation.type == "ray" and config.run.ray_address is not None
    missing = _missing(evaluator, tier)
    if missing and not elsewhere:
        raise ContainmentError(missing, _remedy(evaluator))
    if missing:
        yield Finding("containment of candidates", "warning", f"here {seen}", "The cluster's nodes need a higher tier.")
    else:
        yield Finding("containment of candidates", "ok", seen)


def reachable_tier(evaluator: EvaluatorConfig) -> IsolationTier:
    """Return the tier that workers will have here: the strongest that this machine supports and the file allows."""
    from warpsmith.evaluator import _native

    strength = min(TIER_STRENGTH[_native.achievable_tier()], TIER_STRENGTH[evaluator.strongest_isolation])
    tiers: tuple[IsolationTier, ...] = ("none", "landlock", "namespaces")
    return tiers[strength]


def _missing(evaluator: EvaluatorConfig, tier: IsolationTier) -> str:
    if TIER_STRENGTH[tier] < TIER_STRENGTH[evaluator.minimum_isolation]:
        return (
            f"Candidates would be contained by {tier} here, but evaluator.minimum_isolation is "
            f"{evaluator.minimum_isolation}."
        )
    if evaluator.device == "cuda" and tier == "landlock":
        return "The tier landlock forbids the socket that the GPU's driver creates, so no candidate could use the GPU."
    return ""


def _remedy(evaluator: EvaluatorConfig) -> str:
    from warpsmith.evaluator import _native

    if evaluator.strongest_isolation != "namespaces" and _native.achievable_tier() == "namespaces":
        return 'Set evaluator.strongest_isolation = "namespaces", which this machine supports.'
    layers = dict.fromkeys(layer.remedy for layer in _native.probe() if layer.remedy)
    return " ".join(layers) or "`warpsmith-evaluator doctor` names what is missing."
