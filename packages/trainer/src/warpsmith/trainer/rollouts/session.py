"""Rank 0's side of a GRPO run: problems, samplers, evaluator, records."""

import asyncio
import itertools
import math
import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Self

from warpsmith.policy.chat import ChatFormat
from warpsmith.records import commands, tracing
from warpsmith.records.live_json import LIVE_FILE, LiveJson
from warpsmith.records.writer import RunWriter
from warpsmith.rollout.cluster.session import ray_session
from warpsmith.rollout.collector import Collector, Rows
from warpsmith.rollout.config import SamplerConfig
from warpsmith.rollout.datasets import ProblemRow, generated, read_problems
from warpsmith.rollout.deadlines import within
from warpsmith.rollout.environments import registry
from warpsmith.rollout.evaluators.open import open_evaluator
from warpsmith.rollout.generator import solution_language
from warpsmith.rollout.prompts import build_prompt
from warpsmith.rollout.samplers.pool import SamplerPool
from warpsmith.rollout.samplers.ray_actor import RemoteSampler
from warpsmith.rollout.samplers.weights.payload import checkpoint_shapes
from warpsmith.rollout.sampling_pause import SamplingPause
from warpsmith.rollout.timing_windows import TimingWindows, Window
from warpsmith.rollout.turn_recording import TurnRow
from warpsmith.trainer.config.grpo import TrainerConfig
from warpsmith.trainer.config.placement import times_beside_sampling
from warpsmith.trainer.config.problems import GeneratedHeldOut, GeneratedProblems, ProblemFiles, byte_range
from warpsmith.trainer.errors import CollectionError, ConfigError
from warpsmith.trainer.launch.rank_log import logs_of
from warpsmith.trainer.rollouts.background import EnteredInBackground
from warpsmith.trainer.rollouts.batch_source import Sampled
from warpsmith.trainer.rollouts.event_loop import BackgroundLoop
from warpsmith.trainer.rollouts.prefetch import RunAhead
from warpsmith.trainer.telemetry.display import RunDisplay
from warpsmith.trainer.telemetry.evaluator_use import evaluator_figures, places_of
from warpsmith.trainer.telemetry.phase_log import PhaseLog, PhaseSpan
from warpsmith.trainer.telemetry.run_facts import ProblemLog
from warpsmith.trainer.weights import sync
from warpsmith.trainer.weights.checkpoint import Progress
from warpsmith.trainer.weights.probe import SAMPLED_TOKENS, Probe, is_exact, rounding_for, tolerance_for
from warpsmith.trainer.weights.sampler_link import SamplerLink

if TYPE_CHECKING:
    import pyarrow as pa


_MIB = 1 << 20
_WINDOW_FIGURES = ("timing_windows", "timings", "sampling_paused_s", "timed_alone_s", "timing_wait_s")
_GATE_S = 60.0
"""Extra time for completions to end beyond their own deadlines."""
_EARLIER_TURN = re.compile(r"^turn \d+ of the trajectory was lost: ")
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


class RolloutSession:
    """Everything that samples and evaluates; a context manager, on rank 0 only.

    Samplers and judge start in the background; `ready` waits for them.

    Args:
        config: the run's configuration.
        display: shows the progress of collections.
        phases: notes the phases of the start, and the windows in which candidates are timed.

    Attributes:
        link: the way of weights to the samplers, from `ready` on.
        drained_s: seconds that the last sync waited for completions in flight; 0 if rollouts do not run ahead.
    """

    def __init__(self, config: TrainerConfig, display: RunDisplay, phases: PhaseLog) -> None:
        self.config = config
        self._phases = phases
        self._most_turns = registry.max_turns(config.rollout)
        self._windows: TimingWindows | None = None
        self._window_tally = dict.fromkeys(_WINDOW_FIGURES, 0.0)
        self._rollout_step: int | None = None
        self._has_turn = False
        self.problems = load_problems(config)
        self.held_out = load_held_out(config)
        refuse_trained(self.held_out, self.problems)
        self._display = display
        self._background = BackgroundLoop() if config.algorithm.max_staleness else None
        self._pause = SamplingPause()
        self._live_json: LiveJson | None = None
        self.drained_s = 0.0
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        run, rollout = self.config.run, self.config.rollout
        with ExitStack() as stack:
            with self._phases.start("Ray"), _only_devices(self.config.placement.of_ray(rollout)):
                size = _object_store_bytes(self.config)
                # Without Ray nothing can be closed any more; the records are on disk.
                stack.enter_context(ray_session(run.ray_address, object_store_bytes=size, on_lost=commands.end_at_once))
            # One event loop for the whole run: the samplers' handles belong to it.
            self._loop: asyncio.Runner | BackgroundLoop = self._background or asyncio.Runner()
            stack.enter_context(self._loop)
            self._pool = SamplerPool(
                [
                    RemoteSampler(
                        self.config.policy.path,
                        _sampler_config(self.config),
                        name=f"sampler {number}",
                        log=logs_of(run.dir) / f"sampler-{number}.log",
                    )
                    for number in range(rollout.samplers)
                ]
            )
            stack.callback(lambda: self._loop.run(self._pool.close()))
            self._began = time.time()
            self._windows = self._make_windows()
            evaluator = self.config.placement.evaluator(self.config.evaluator)
            judge = open_evaluator(rollout, evaluator, logs=logs_of(run.dir), windows=self._windows)
            self._judge = stack.enter_context(EnteredInBackground(judge))
            self._stack = stack.pop_all()
        return self

    def _make_windows(self) -> TimingWindows | None:
        """Return the windows in which candidates are timed, if their GPU samples too."""
        rollout = self.config.rollout
        if not times_beside_sampling(self.config.placement, rollout, self.config.evaluator):
            return None
        return TimingWindows(
            self._pool, pause_timeout_s=rollout.sampler.start_timeout_s + _GATE_S, on_window=self._note_window
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def ready(self, chat: ChatFormat) -> None:
        """Wait for the samplers, open the records and create the collector; a run that cannot start leaves no records.

        Raises:
            SamplerError: a sampler cannot start.
            EvaluatorError: the evaluator cannot start.
        """
        with self._phases.start("waiting for the evaluator"):
            judge = self._judge.result()
        self._note_start("the evaluator", self._judge.began, self._judge.ended)
        with self._phases.start("waiting for the samplers"):
            self._loop.run(self._started())
        self.link = SamplerLink(
            self._pool, self._loop, make_probes(self.config, self.problems, chat),
            deadline_s=self.config.sync.deadline_s, dtype=self.config.policy.dtype, paused=self.sampling_paused,
        )  # fmt: skip
        self.writer = self._stack.enter_context(RunWriter(self.config.run.dir))
        self._problem_log = ProblemLog(self.config.run.dir)
        run = self.config.run
        if run.live_json:
            self._live_json = self._stack.enter_context(LiveJson(run.dir / LIVE_FILE, self._display.warn))
        self._collector = Collector(
            self._pool, judge, chat, self.config.rollout,
            run=run.title, on_turn=self._on_turn, on_trajectory=self._on_trajectory,
            pause=None if self._background is None else self._pause,
            language=self.config.evaluator.language,
        )  # fmt: skip

    async def _started(self) -> None:
        await self._pool.ready()
        if self._windows is not None:
            # A sampler that cannot be paused is found here, and not by the first timing.
            async with self._pool.paused():
                pass
        for sampler in self._pool.samplers:
            marks = await sampler.marks()
            self._note_start(f"{sampler.name}, process", self._began, marks["created"])
            imported = marks.get("imported")
            if imported is not None:
                self._note_start(f"{sampler.name}, import of vLLM", marks["created"], imported)
            self._note_start(f"{sampler.name}, engine", imported or marks["created"], marks["started"])

    def _note_start(self, name: str, began: float, ended: float) -> None:
        self._phases.add(PhaseSpan("start", name, began, max(began, ended), background=True))

    def note_first_token(self) -> None:
        """Note when the samplers sampled their first token; the probe of the first sync has asked for it."""
        self._loop.run(self._note_first_tokens())

    async def _note_first_tokens(self) -> None:
        for sampler in self._pool.samplers:
            marks = await sampler.marks()
            if "first_token" in marks:
                self._note_start(f"{sampler.name}, to the first token", marks["started"], marks["first_token"])

    def _note_window(self, window: Window) -> None:
        to_wall = time.time() - time.monotonic()
        self._phases.add(
            PhaseSpan(
                "time", f"window of {len(window.timed)} timings", window.opened + to_wall, window.ended + to_wall,
                step=self._rollout_step,
            )
        )  # fmt: skip
        for name, value in _figures(window).items():
            self._window_tally[name] += value

    def window_figures(self) -> dict[str, float]:
        """Return the figures of windows since the last call; empty if candidates are not timed during sampling."""
        if self._windows is None:
            return {}
        tally, self._window_tally = self._window_tally, dict.fromkeys(_WINDOW_FIGURES, 0.0)
        return tally

    def _on_turn(self, row: TurnRow) -> None:
        if not self._has_turn:
            self._has_turn, began = True, row["started_at"].timestamp()
            self._phases.add(PhaseSpan("start", "the first answer", began, began + row["generate_s"]))
        self._display.turn(row)
        if self._live_json is not None:
            self._live_json.turn(row)

    def _on_trajectory(self, rows: Rows) -> None:
        self._display.trajectory(rows)
        if self._live_json is not None:
            self._live_json.trajectory(rows)

    def collect(
        self,
        problems: Sequence[ProblemRow],
        samples: int,
        *,
        label: str,
        seed: int | None,
        role: str,
        after_step: int,
        weight_version: int,
        rollout_step: int | None = None,
        stage: int | None = None,
        staleness: int = 0,
        max_turns: Sequence[int | None] | None = None,
    ) -> "pa.Table":
        """Return the turns of complete groups, after writing them to the records.

        Raises:
            SyncError: a token was sampled with weights older than `weight_version` by more than `staleness`.
            CollectionError: every turn was lost.
        """
        self._problem_log.add(problems)
        turns = [most or self._most_turns for most in max_turns or [None] * len(problems)]
        self._display.work.collect(
            "held out" if role == "held_out" else label, len(problems) * samples, samples * sum(turns)
        )
        self._rollout_step = rollout_step
        attributes = {"warpsmith.label": label, "warpsmith.role": role, "warpsmith.step": rollout_step}
        with tracing.span("rollout", attributes):
            table = self._loop.run(
                self._in_windows(
                    self._collector.collect(
                        problems, samples, label=label, seed=seed, role=role, after_step=after_step,
                        rollout_step=rollout_step, stage=stage, max_turns=max_turns,
                    ),
                    tracing.here(),
                )
            )  # fmt: skip
        self.writer.append("turns", table)
        refuse_lost(table, label)
        sync.check_tokens(table, weight_version, staleness)
        return table

    async def _in_windows(
        self, collection: Coroutine[None, None, "pa.Table"], place: tracing.Place | None
    ) -> "pa.Table":
        """Await a collection, and let candidates be timed meanwhile: between two collections the GPU trains.

        `place` is where its spans belong: the loop has a context of its own.
        """
        with tracing.at(place):
            async with nullcontext() if self._windows is None else self._windows.served():
                return await collection

    @contextmanager
    def sampling_paused(self) -> Iterator[None]:
        """Keep completions out of the block: those in flight end first, others start after it.

        They stay blocked if the block fails: nothing may be sampled from unverified weights.

        Raises:
            DeadlinePassedError: those in flight have not ended although their own deadlines have passed.
        """
        if self._background is None:
            yield
            return
        began, rollout = time.monotonic(), self.config.rollout
        seconds = (rollout.retries + 1) * rollout.generate_timeout_s + _GATE_S
        self._loop.run(within(seconds, self._pause.pause(), "waiting for the completions in flight before a sync"))
        self.drained_s = time.monotonic() - began
        yield
        self._background.call(self._pause.resume)

    def ahead(self, collect: Callable[[int, Progress], Sampled], progress: Progress) -> RunAhead:
        """Return a `RunAhead` that samples the next batches with `collect` while others are trained."""
        if self._background is None:
            raise AssertionError("max_staleness is 0")
        return RunAhead(
            collect, max_staleness=self.config.algorithm.max_staleness, progress=progress, steps=self.config.run.steps,
            cut_off=self._background.cut_off,
        )  # fmt: skip

    def use_figures(self, seconds: float) -> dict[str, float]:
        """Return how busy the evaluator was since the last call, `seconds` ago; see `evaluator_figures`."""
        places = places_of(self.config.rollout, self.config.placement.evaluator(self.config.evaluator))
        return evaluator_figures(self._collector.evaluator.take_seconds(), seconds, places)

    def cache_figures(self) -> dict[str, float]:
        """Return cache hits and misses of verdicts over the whole run."""
        cache = self._collector.evaluator
        return {"verdict_cache_hits": float(cache.hits), "verdict_cache_misses": float(cache.misses)}


def _figures(window: Window) -> dict[str, float]:
    """Return what a window adds to each of `_WINDOW_FIGURES`."""
    values = (
        1.0,
        float(len(window.timed)),
        window.resumed - window.began,
        sum(end - begin for begin, end in window.timed),
        window.opened - window.wanted,
    )
    return dict(zip(_WINDOW_FIGURES, values, strict=True))


def refuse_lost(turns: "pa.Table", label: str) -> None:
    """Reject a batch without a valid turn: it cannot be trained, and the next would probably fail in the same way.

    Raises:
        CollectionError: with the most frequent reason.
    """
    reasons = [_EARLIER_TURN.sub("", reason or "") for reason in turns["invalid_reason"].to_pylist()]
    if "" in reasons or not reasons:
        return
    reason, times = Counter(reasons).most_common(1)[0]
    raise CollectionError(
        f"None of the {len(reasons)} turns of {label} could be sampled and evaluated; {times} were lost to: {reason}",
        "Fix or remove these problems, then continue with --resume."
        if reason.startswith("problem: ")
        else "Fix that, then continue with --resume.",
    )


def make_probes(config: TrainerConfig, problems: Sequence[ProblemRow], chat: ChatFormat) -> list[Probe]:
    """Return the probe of a run, one for each agent's adapter: its problems' prompts, concatenated and cut to size."""
    dtypes = (config.policy.dtype, config.rollout.sampler.dtype)
    # Tokens are sampled after them, and scored with them; a score samples one more.
    size = min(config.sync.probe_tokens, config.rollout.sampler.max_model_len - SAMPLED_TOKENS - 1)
    ids: list[int] = []
    for problem in itertools.cycle(problems):
        if len(ids) >= size:
            break
        ids += chat.prompt_ids(
            build_prompt(
                problem,
                style=config.rollout.prompt_style,
                operators=config.rollout.operators_for(problem),
                language=config.evaluator.language,
            )
        )
    tolerance = config.sync.tolerance or tolerance_for(*dtypes)
    return [
        Probe(ids[:size], tolerance, rounding_for(*dtypes), config.sync.deadline_s, is_exact(*dtypes), agent)
        for agent in tuple(config.policy.adapters) or (None,)
    ]


def load_problems(config: TrainerConfig) -> list[ProblemRow]:
    """Return the problems to train on.

    Raises:
        ConfigError: no problem has one of the requested levels.
        DatasetError: the source cannot be read.
    """
    section = config.problems
    if isinstance(section, GeneratedProblems):
        return generated(
            seed=section.seed,
            count=section.count,
            split="train",
            levels=section.levels,
            size=section.size,
            language=solution_language(config.evaluator.language),
            touched=byte_range(section.touched),
        )
    return _of_levels(section, "problems")


def load_held_out(config: TrainerConfig) -> list[ProblemRow]:
    """Return the problems of the held-out evaluation.

    Generated ones have compositions outside the training split, and the levels and size of those that are trained on
    where the configuration says no others.

    Raises:
        ConfigError: the files have too few problems, or none of the requested levels.
        DatasetError: the source cannot be read.
    """
    section, trained = config.held_out, config.problems
    if section is None:
        return []
    source, count = section.source, section.problems
    if isinstance(source, GeneratedHeldOut):
        own = trained if isinstance(trained, GeneratedProblems) else None
        return generated(
            seed=section.seed,
            count=count,
            split="held_out",
            levels=source.levels or trained.levels,
            size=source.size or (own.size if own is not None else "cpu"),
            language=solution_language(config.evaluator.language),
            touched=byte_range(own.touched if own is not None else None),
        )
    rows = _of_levels(source, "held_out.source")
    if count > len(rows):
        raise ConfigError(
            f"held_out.problems ({count}): {source.source} has {len(rows)} problems of the levels "
            f"{list(source.levels)}.",
            "Lower it, or add levels.",
        )
    chosen = sorted(random.Random(section.seed).sample(range(len(rows)), count))
    return [rows[number] for number in chosen]


def refuse_trained(held_out: Sequence[ProblemRow], trained: Sequence[ProblemRow]) -> None:
    """Refuse held-out problems that are trained on: they would measure memory.

    Raises:
        ConfigError: names some of them.
    """
    texts = {row.text.strip() for row in trained}
    both = [row.name for row in held_out if row.text.strip() in texts]
    if both:
        raise ConfigError(
            f"{len(both)} of {len(held_out)} held-out problems are trained on too: {', '.join(both[:3])}"
            f"{', ...' if len(both) > 3 else ''}.",
            "Train on other levels or files than held_out.source has.",
        )


def _of_levels(section: ProblemFiles, table: str) -> list[ProblemRow]:
    """Return the problems of files that have one of the section's levels, or none."""
    rows = read_problems(section.path)
    kept = [row for row in rows if row.level is None or row.level in section.levels]
    if not kept:
        raise ConfigError(
            f"None of the {len(rows)} problems of {section.source} has a level of {list(section.levels)}.",
            f"Change {table}.levels.",
        )
    return kept


def _sampler_config(config: TrainerConfig) -> SamplerConfig:
    """Return the samplers' settings; if adapters are sent, the samplers are started for adapters."""
    lora = config.policy.lora if config.sends_adapter else None
    agents = tuple(config.policy.adapters) if lora else ()
    return config.rollout.sampler.model_copy(update={"lora_rank": lora.rank if lora else 0, "lora_agents": agents})


@contextmanager
def _only_devices(devices: Sequence[int]) -> Iterator[None]:
    """Let the local Ray instance started inside the block see only these GPUs; with none listed, change nothing.

    The launcher hides from this process the GPUs that do not train, and Ray offers what its parent sees.
    """
    name = "CUDA_VISIBLE_DEVICES"
    before = os.environ.get(name)
    if devices:
        os.environ[name] = ",".join(map(str, devices))
    try:
        yield
    finally:
        if before is not None:
            os.environ[name] = before
        elif devices:
            del os.environ[name]


def _object_store_bytes(config: TrainerConfig) -> int:
    """Return enough room for two versions of the weights, and some more."""
    elements = sum(math.prod(shape) for shape in checkpoint_shapes(config.policy.path).values())
    return 256 * _MIB + 2 * elements * _BYTES[config.policy.dtype]
