"""The demo from end to end: tokenizer and model, SFT, GRPO with held-out evaluations, summary, report."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from warpsmith.policy.config import TinySettings
from warpsmith.records import process_log
from warpsmith.records.ownership import owned
from warpsmith.trainer.config import GeneratedProblems, GeneratedSource, SftConfig, load_grpo, load_sft
from warpsmith.trainer.demo.phases import Phases
from warpsmith.trainer.errors import ConfigError, LaunchError
from warpsmith.trainer.launch.launcher import launch
from warpsmith.trainer.telemetry.held_out import is_concluded

OWN_SFT: Final = Path(__file__).with_name("demo-sft.toml")
OWN_GRPO: Final = Path(__file__).with_name("demo.toml")
"""The demo's files, which are part of the package; `configs/` of a checkout links to them."""

_INTERRUPTED = 130
"""The exit code of a command that SIGINT ended."""
_MEASURED = "7 to 8 minutes on two idle cores, 140 MB of disk"
_CORPUS_PROBLEMS = 1500
"""Problems whose prompts and solutions the tokenizer is trained on."""


@dataclass(frozen=True)
class DemoSettings:
    """Settings of the demo.

    Args:
        sft: file of the SFT run that warms the policy.
        grpo: file of the GRPO run.
        out: directory of all output: `policy`, `sft`, `grpo`, `summary.json`, `report.html`.
        seed: seed of the model, the problems and both runs.
        sft_overrides, grpo_overrides: `table.key=value`, as for the two commands.
        processes: ranks of both runs.
        tiny: sizes of the created model.
    """

    sft: Path
    grpo: Path
    out: Path
    seed: int = 0
    sft_overrides: tuple[str, ...] = ()
    grpo_overrides: tuple[str, ...] = ()
    processes: int = 1
    tiny: TinySettings = field(default_factory=TinySettings)


def new_directory() -> Path:
    """Return a directory under `runs` named after the current time."""
    return Path("runs") / f"demo-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def run_demo(settings: DemoSettings, *, resume: bool = False, say: Callable[[str], None] | None = None) -> Path:
    """Run the demo; return the path of its `summary.json`.

    An interrupted demo continues with `resume`: finished phases are kept, the others resume from their newest
    checkpoint. The times of the summary are then those of the last start.

    Raises:
        RunInUseError: another demo works in `out`.
        ConfigError: a file cannot be used, or `out` already holds a demo.
        LaunchError: SFT or GRPO failed; it has printed why.
    """
    say = say or process_log.show
    sft, grpo = checked_overrides(settings, resume)
    with owned(settings.out):
        say(_opening(settings))
        return _run_phases(settings, sft, grpo, resume=resume, say=say)


def _run_phases(
    settings: DemoSettings, sft: Sequence[str], grpo: Sequence[str], *, resume: bool, say: Callable[[str], None]
) -> Path:
    phases = Phases(say)
    with phases.phase("policy", "train a tokenizer, create a small decoder"):
        _make_policy(settings, grpo)
    with phases.phase("sft", "warm the policy on generated problems with known solutions"):
        _run("sft", settings, sft, resume)
    with phases.phase("grpo", "train it by multi-turn GRPO against the evaluator"):
        _run("grpo", settings, grpo, resume)
    with phases.phase("summary", "compare held-out problems before and after, write the report"):
        summary = _conclude(settings.out, phases)
    finished = json.loads(summary.read_text(encoding="utf-8"))
    say(f"\nTime by phase:\n{phases.table(finished['phases'])}\n")
    say(_conclusion(finished, settings.out))
    return summary


def _opening(settings: DemoSettings) -> str:
    """Return where the demo writes and, if it runs as measured, what it takes (benchmarks/LOG.md)."""
    changed = settings.sft_overrides or settings.grpo_overrides
    own = (settings.sft, settings.grpo) == (OWN_SFT, OWN_GRPO) and not changed
    return f"Demo in {settings.out}: {_MEASURED}." if own else f"Demo in {settings.out}."


def checked_overrides(settings: DemoSettings, resume: bool) -> tuple[list[str], list[str]]:
    """Return the overrides of both runs, after reading both files as they will be read, so that bad ones fail early."""
    if resume and not settings.out.exists():
        raise ConfigError(f"There is no demo in {settings.out}.", "Name its directory, or omit --resume.")
    if settings.out.exists() and not resume:
        raise ConfigError(f"{settings.out} already exists.", "Pass --resume to resume it, or another --output.")
    sft = [
        *settings.sft_overrides,
        *(f"run.dir={settings.out / 'sft'}", f"run.seed={settings.seed}", f"policy.path={settings.out / 'policy'}"),
    ]
    grpo = [
        *settings.grpo_overrides,
        *(f"run.dir={settings.out / 'grpo'}", f"run.seed={settings.seed}"),
        f"policy.path={settings.out / 'sft' / 'final_model'}",
    ]
    _warm_up_source(load_sft(settings.sft, sft), settings)
    checked = load_grpo(settings.grpo, grpo)
    if checked.held_out is None:
        raise ConfigError(f"{settings.grpo}: the demo compares held-out problems.", "Set held_out.problems.")
    # Problems from files have no seed.
    return sft, grpo + ([f"problems.seed={settings.seed}"] if isinstance(checked.problems, GeneratedProblems) else [])


def _make_policy(settings: DemoSettings, grpo: Sequence[str]) -> None:
    """Create the model, unless an interrupted demo has created it."""
    from transformers.utils import logging

    from warpsmith.policy.tiny import build_tiny

    logging.disable_progress_bar()  # The console has only what the demo says.
    path = settings.out / "policy"
    if path.exists():
        return
    settings.out.mkdir(parents=True, exist_ok=True)
    sizes = settings.tiny.model_dump(exclude={"max_position_embeddings", "seed"})
    source = _warm_up_source(load_sft(settings.sft), settings)
    build_tiny(path, _corpus(source, settings.seed), seed=settings.seed, **sizes)


def _warm_up_source(sft: SftConfig, settings: DemoSettings) -> GeneratedSource:
    """Return the source of the warm-up.

    Raises:
        ConfigError: it is not generated problems.
    """
    if isinstance(sft.data.source, GeneratedSource) and not sft.data.sources:
        return sft.data.source
    raise ConfigError(
        f"{settings.sft}: the demo warms up on generated problems.", 'Set data.source.type = "generated".'
    )


def _corpus(source: GeneratedSource, seed: int) -> list[str]:
    """Return prompts and answers of the kind that SFT trains on."""
    from warpsmith.trainer.data.generated import chats_of, source_problems

    problems = source_problems(source, seed, _CORPUS_PROBLEMS)
    return [message["content"] for chat in chats_of(source, problems, seed) for message in chat]


def _run(command: Literal["sft", "grpo"], settings: DemoSettings, overrides: Sequence[str], resume: bool) -> None:
    """Run a command's ranks to the end, unless an interrupted demo already has."""
    config, out = {"sft": settings.sft, "grpo": settings.grpo}[command], settings.out / command
    if (out / "final_model").exists() and (command == "sft" or is_concluded(out)):
        return
    again = ["--resume"] if resume and (out / "checkpoints").exists() else []
    options = [part for item in overrides for part in ("--set", item)]
    with owned(out) as ownership:
        arguments = [command, str(config), *options, *again]
        code = launch(arguments, settings.processes, run_dir=out, environment=ownership.handover)
    if code == _INTERRUPTED:
        raise LaunchError(
            f"The {command} run was interrupted.",
            f"Continue with `warpsmith-trainer demo --resume --output {settings.out}` and the other options of the "
            "first start.",
        )
    if code:
        raise LaunchError(f"The {command} run ended with code {code}; its own message is above.", "Fix that first.")
    if not (out / "final_model").exists():
        raise LaunchError(f"The {command} run stopped before its end.", "Continue with --resume.")


def _conclude(out: Path, phases: Phases) -> Path:
    """Write `summary.json` and, if its extra is installed, `report.html`."""
    from warpsmith.records.reader import RunReader
    from warpsmith.records.report import write_report
    from warpsmith.trainer.demo.summary import summarise_run

    path = out / "summary.json"
    path.write_text(json.dumps(summarise_run(out / "grpo", phases.seconds, phases.total), indent=2) + "\n", "utf-8")
    write_report(RunReader(out / "grpo"), out / "report.html")
    return path


def _conclusion(summary: dict[str, Any], out: Path) -> str:
    return (
        f"{_compared(summary['held_out'])}\n"
        f"Summary: {out / 'summary.json'}\nReport:  {out / 'report.html'}\nModel:   {out / 'grpo' / 'final_model'}\n"
        f"Records: {out / 'grpo' / 'records'} (try `warpsmith-records summary {out / 'grpo'}`)"
    )


def _compared(held_out: dict[str, Any]) -> str:
    gain = held_out["difference"]
    if gain is None:
        return f"No comparison of held-out problems before and after GRPO, since {held_out['absent']}"
    return (
        f"Held-out problems solved: {held_out['sft']['correct']:.1%} after SFT, {held_out['grpo']['correct']:.1%} "
        f"after GRPO; {_gained(gain)}.{_first_turn(held_out)}{_repaired(held_out)}"
    )


def _gained(gain: dict[str, Any]) -> str:
    low, high = gain["ci95"]
    verdict = "better" if low > 0 else "worse" if high < 0 else "no significant difference"
    return f"difference {gain['correct']:+.1%}, 95 % interval {low:+.1%} to {high:+.1%} ({verdict})"


def _first_turn(held_out: dict[str, Any]) -> str:
    """Return the same of turn 1 alone; nothing without a valid one on both sides."""
    if held_out["difference_turn_1"] is None:
        return ""
    before, after = (held_out[name]["correct_by_turn"][0] for name in ("sft", "grpo"))
    return f"\nIn turn 1: {before:.1%} after SFT, {after:.1%} after GRPO; {_gained(held_out['difference_turn_1'])}."


def _repaired(held_out: dict[str, Any]) -> str:
    """Return what later turns solved in words; nothing if there was nothing left to solve."""
    before, after = (held_out[name]["repaired"] for name in ("sft", "grpo"))
    if before is None or after is None:
        return ""
    return f"\nOf what turn 1 did not solve, later turns solved {before:.1%} after SFT, {after:.1%} after GRPO."
