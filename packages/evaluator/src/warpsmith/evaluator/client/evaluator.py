"""The caller's side: concurrent evaluations through one judge process. Importable without torch."""

import asyncio
import importlib.util
import os
import subprocess
import sys
import threading
import weakref
import zlib
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Final, NamedTuple, Unpack, cast

from warpsmith.evaluator import _native, errors, verdict_spans
from warpsmith.evaluator.baselines import BaselineName, ReferenceTimes
from warpsmith.evaluator.client.interface import (
    EvaluationOptions,
    GivenBaseline,
    OnRunning,
    WindowKeeper,
    WindowRequest,
)
from warpsmith.evaluator.client.request import EvaluationRequest, checked_baselines
from warpsmith.evaluator.client.sources import GivenCandidate, GivenProblem, problem_of
from warpsmith.evaluator.combined_verdict import judged_on_each, judged_on_each_async
from warpsmith.evaluator.config import EvaluatorConfig
from warpsmith.evaluator.errors import BadProblemError, EvaluatorError, JudgeUnavailableError, WireError
from warpsmith.evaluator.ipc import codec, messages
from warpsmith.evaluator.ipc.messages import Kind, Message
from warpsmith.evaluator.languages.chips import is_amd
from warpsmith.evaluator.languages.registry import language_of
from warpsmith.evaluator.processes.retries import ONCE, Retries, RetryPolicy, of, with_retries, with_retries_async
from warpsmith.evaluator.recordings.library_policy import OperatorPolicy
from warpsmith.evaluator.sandbox import temp_dirs, torch_compile
from warpsmith.evaluator.system import stderr
from warpsmith.evaluator.verdict import Verdict, invalid
from warpsmith.records.errors import UsageError
from warpsmith.records.wording import installing

STDERR: Final = 2
SILENCE_S: Final = 60.0
"""How long a judge may be silent before it is pinged, and how long it then has to answer."""
STOP_S: Final = 10.0
MOST_SEEDS: Final = 64
"""Maximum number of input sets in one request about a problem."""
JUDGE_ARGUMENTS: Final = ("-I", "-m", "warpsmith.evaluator.judge.process")
"""Python's arguments to start a judge."""
JUDGE_DIED: Final = "The judge process died while it evaluated this candidate, and again at the retry."


class _JudgeLostError(Exception):
    """The judge process died while it worked on a request."""


class DeviceFacts(NamedTuple):
    """The device that candidates run on: its name, and the chip that kernels are compiled for (90 is sm_90)."""

    name: str
    arch: int


class Output(NamedTuple):
    """A tensor that a problem's forward returned: its shape, and its values as doubles in row-major order."""

    shape: tuple[int, ...]
    values: tuple[float, ...]


@dataclass
class _Pending:
    """One pending request: the future of its answer (a verdict, or facts), and the listener for its progress."""

    answer: "Future[Any]"
    on_running: OnRunning


@dataclass
class _Judge:
    """One running judge process and its pending requests."""

    process: subprocess.Popen[bytes]
    channel: _native.Channel
    waiting: dict[int, _Pending]
    lock: threading.Lock
    dead: bool = False
    stopped: bool = False
    listener: threading.Thread = field(default_factory=threading.Thread)
    facts: DeviceFacts | None = None
    windows: WindowKeeper | None = None
    slots: int = 1

    @property
    def rounds(self) -> int:
        """How many times its pending work would fill its slots."""
        return len(self.waiting) // self.slots

    @staticmethod
    def start(config: EvaluatorConfig, windows: WindowKeeper | None, *, beside_others: bool = False) -> "_Judge":
        """Start a judge; `beside_others`: other judges of this evaluator share its machine and device."""
        _check_installed()
        language = language_of(config.language)
        if is_amd(config.chip) and not language.compiles_for_amd:
            raise UsageError(
                f"target is {config.target!r}, and {language.title} is not compiled for AMD's chips.",
                "Use an NVIDIA chip, such as sm_90.",
            )
        language.check(config)
        if config.compiled_baselines and config.device_kind.times:
            torch_compile.check()
        try:
            judge = _Judge._launched(config, windows)
        except (OSError, _native.NativeError) as error:
            raise _cannot_start(error) from error
        try:
            fields = {
                "config": config.model_dump_json(),
                "windows": windows is not None,
                "beside_others": beside_others,
            }
            messages.send(judge.channel, Kind.CONFIGURE, fields, timeout_s=config.start_timeout_s)
            judge.facts = _facts(messages.receive(judge.channel, config.start_timeout_s))
            judge.listener.start()
        except (_native.NativeError, WireError) as error:
            judge.stop()
            raise JudgeUnavailableError(
                f"The judge did not start within {config.start_timeout_s:g} s: {error}",
                "See its own message above, on stderr; torch and triton must be importable without PYTHONPATH.",
            ) from error
        except RuntimeError as error:
            judge.stop()
            raise _cannot_start(error) from error
        except BaseException:
            judge.stop()
            raise
        return judge

    @staticmethod
    def _launched(config: EvaluatorConfig, windows: WindowKeeper | None) -> "_Judge":
        """Start the process."""
        channel, fd = _native.Channel.pair()
        command = [sys.executable, *JUDGE_ARGUMENTS, str(fd)]
        # From the start: once anything has queried the driver, what it shows no longer changes.
        environment = os.environ | config.device_kind.environment(config.gpu)
        try:
            # Its own process group, because Ctrl-C is for the caller; when the caller closes the channel, the rest
            # ends.
            process = subprocess.Popen(
                command,
                env=environment,
                pass_fds=[fd],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=None if _is_open(STDERR) else subprocess.DEVNULL,
                process_group=0,
            )
        finally:
            os.close(fd)
        judge = _Judge(process, channel, {}, threading.Lock(), windows=windows, slots=config.slots)
        judge.listener = threading.Thread(target=judge._listen, name="judge", daemon=True)
        return judge

    def ask(
        self, number: int, fields: dict[str, Any], on_running: OnRunning, kind: Kind = Kind.EVALUATE
    ) -> "Future[Any]":
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()  # a cancelled asyncio caller must not cancel it
        with self.lock:
            if self.dead:
                raise _JudgeLostError
            self.waiting[number] = _Pending(future, on_running)
            try:
                messages.send(self.channel, kind, fields, timeout_s=SILENCE_S)
            except _native.NativeError as error:
                # The listener may not have noticed yet, and the retry must not get the same judge.
                self.dead = True
                del self.waiting[number]
                raise _JudgeLostError from error
        return future

    def _listen(self) -> None:
        try:
            while True:
                self._handle(self._next())
        except Exception as error:  # noqa: BLE001  (callers that wait for an answer must be woken)
            if not isinstance(error, _native.PeerClosed):
                stderr.report(f"The judge is abandoned: {type(error).__name__}: {error}\n")
            self._lost()

    def _next(self) -> Message:
        """Receive a message. A silent judge is pinged; DeadlineExceeded if it does not answer.

        It answers pings from a dedicated thread, however long evaluations take.
        """
        try:
            return messages.receive(self.channel, SILENCE_S)
        except _native.DeadlineExceeded:
            with self.lock:
                messages.send(self.channel, Kind.PING, {}, timeout_s=SILENCE_S)
            return messages.receive(self.channel, SILENCE_S)

    def _handle(self, message: Message) -> None:
        if message.kind is Kind.PONG:
            return
        if message.kind in (Kind.WINDOW_WANTED, Kind.WINDOW_ENDED):
            self._handle_window(message)
            return
        number = message.fields.integer("number")
        if message.kind is Kind.PROGRESS:
            with self.lock:
                pending = self.waiting[number]
            pending.on_running(message.fields.flag("running"))
            return
        with self.lock:
            pending = self.waiting.pop(number)
        if message.kind is Kind.VERDICT:
            pending.answer.set_result(Verdict.from_record(message.fields.mapping("verdict")))
        elif message.kind is Kind.AUDITED:
            pending.answer.set_result(message.fields.mapping("facts"))
        elif message.kind is Kind.TIMES:
            found = {name: message.fields.value(name) for name in ("times", "notes")}
            pending.answer.set_result(ReferenceTimes.from_fields(found))
        elif message.kind is Kind.OUTPUTS:
            pending.answer.set_result(message.fields.sequence("outputs"))
        else:
            pending.answer.set_exception(_refusal(message.fields))

    def _handle_window(self, message: Message) -> None:
        if self.windows is None:
            raise WireError(f"{message.kind.name} was received from a judge that was offered no windows.")
        if message.kind is Kind.WINDOW_ENDED:
            timed = cast("list[tuple[float, float]]", message.fields.value("timed"))
            self.windows.ended(timed)
            return
        waiting = message.fields.integer("waiting")
        self.windows.wanted(WindowRequest(waiting, self.slots, self._open_window, self._refuse_window))

    def _open_window(self, until: float) -> None:
        self._answer_window(Kind.WINDOW_OPENED, {"until": until})

    def _refuse_window(self, reason: str) -> None:
        self._answer_window(Kind.WINDOW_REFUSED, {"reason": reason})

    def _answer_window(self, kind: Kind, fields: dict[str, Any]) -> None:
        # A judge that is gone is reported by its listener.
        with self.lock, suppress(_native.NativeError):
            messages.send(self.channel, kind, fields, timeout_s=SILENCE_S)

    def _lost(self) -> None:
        with self.lock:
            self.dead = True
            waiting, self.waiting = self.waiting, {}
        if self.windows is not None:
            self.windows.lost()
        for pending in waiting.values():
            pending.answer.set_exception(_JudgeLostError())

    def stop(self) -> None:
        """End the process; its listener must end before the interpreter does."""
        with self.lock:
            stopped, self.stopped = self.stopped, True
        if stopped:
            return
        messages.hang_up(self.channel)
        if self.listener.ident is not None and self.listener is not threading.current_thread():
            self.listener.join(STOP_S)
        self.channel.close()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_S)
        # If the judge and its zygotes were killed together, no other process does this.
        temp_dirs.sweep()


def _check_installed() -> None:
    """Raise JudgeUnavailableError where the extra `judge` is not installed."""
    missing = [name for name in ("torch", "triton") if importlib.util.find_spec(name) is None]
    if missing:
        raise JudgeUnavailableError(
            f"To judge on this machine, {' and '.join(missing)} must be installed; this environment lacks it.",
            f"{installing('evaluator', 'judge')} A Client of a server needs neither.",
        )


def _cannot_start(error: Exception) -> JudgeUnavailableError:
    return JudgeUnavailableError(
        f"The judge cannot be started: {str(error).rstrip('.')}.",
        "Allow this process more processes and threads (ulimit -u), descriptors (ulimit -n) or memory.",
    )


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _facts(ready: Message) -> DeviceFacts:
    if ready.kind is not Kind.READY:
        raise _refusal(ready.fields)
    return DeviceFacts(ready.fields.text("device"), ready.fields.integer("arch"))


def _refusal(fields: codec.Fields) -> EvaluatorError:
    kinds: dict[str, type[EvaluatorError]] = {
        kind.__name__: kind
        for kind in (
            BadProblemError,
            errors.IsolationUnavailableError,
            JudgeUnavailableError,
            errors.DeviceQuarantinedError,
        )
    }
    kind = kinds.get(fields.text("type"), EvaluatorError)
    return kind(fields.text("message"), fields.text("remedy"))


@dataclass
class _Place:
    """Where one of an evaluator's judges runs: it is started under the lock, and again after it died."""

    judge: _Judge | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def rounds(self) -> int:
        judge = self.judge
        return judge.rounds if judge is not None else 0


class Evaluator:
    """Judges candidates on this machine. A context manager; safe to use from several threads and from asyncio.

    Args:
        config: sizes, containment and limits.
        windows: if other processes use the judge's device too: opens windows in which they do not. The judge times only
            in these.

    Attributes:
        judges_lost: judge processes known to have died or been killed.

    Example:
        with Evaluator() as evaluator:
            verdict = evaluator.evaluate(Path("19_ReLU.py"), Path("relu.py"))
        print(verdict.status, verdict.error_message)
    """

    def __init__(self, config: EvaluatorConfig | None = None, *, windows: WindowKeeper | None = None) -> None:
        self.config = config or EvaluatorConfig()
        if windows is not None and self.config.most_judges > 1:
            raise UsageError(
                f"judges is {self.config.judges}, and the device is shared by windows, which one judge asks for.",
                "Set judges to 1 where sampling and timing share a GPU.",
            )
        self._windows = windows
        self._lock = threading.Lock()
        self._numbers = iter(range(1, 1 << 62))
        self._places = [_Place() for _ in range(self.config.most_judges)]
        self._closed = False
        self.judges_lost = 0
        # A judge that ended after this was closed is not restarted.
        self._retries = replace(_OF_LOST_JUDGES, never=lambda error: self._closed)

    def __enter__(self) -> "Evaluator":
        try:
            self._start_judges()
        except BaseException:
            self._stop_judges()
            raise
        return self

    def _start_judges(self) -> None:
        first, *others = range(len(self._places))
        with ThreadPoolExecutor(max(len(others), 1)) as threads:
            starting = threads.map(self._judge_at, others)
            self._judge_at(first)
            list(starting)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def facts(self) -> DeviceFacts:
        """What candidates run on; starts the judge if none runs yet."""
        facts = self._judge_at(0).facts
        assert facts is not None  # a running judge has sent them
        return facts

    def close(self) -> None:
        """Stop the judge and everything that it started; running evaluations end as `invalid`."""
        self._closed = True
        self._stop_judges()

    def _stop_judges(self) -> None:
        for place in self._places:
            with place.lock:
                judge, place.judge = place.judge, None
            if judge is not None:
                judge.stop()

    def evaluate(
        self,
        problem: GivenProblem,
        candidate: GivenCandidate,
        *,
        trials: int | None = None,
        seed: int | None = None,
        timeout_s: float | None = None,
        operators: OperatorPolicy | None = None,
        baseline: GivenBaseline | None = None,
    ) -> Verdict:
        """Return the verdict on `candidate`, a module that defines `ModelNew`.

        Args:
            problem: what the candidate must solve: a `Problem`, the path of its file (`pathlib.Path`), or its source.
            candidate: Python source, or the path of its file. Only a contained worker executes it.
            trials: correctness trials; None takes the configured number.
            seed: makes inputs and trials repeatable; leave it None so that nobody can predict them.
            timeout_s: seconds that the candidate's whole run may take; None takes the configured limit.
            operators: what forward may compute with torch besides its kernels; None takes the configured policy.
            baseline: what to compare with, some of the configured baselines, the first for `speedup`; None takes all.

        Raises:
            UsageError: an argument has the wrong type or range.
            BadProblemError: the problem itself cannot be judged.
            IsolationUnavailableError, JudgeUnavailableError: this machine cannot run the evaluator.
        """
        request = EvaluationRequest.of(
            problem,
            candidate,
            trials=trials,
            seed=seed,
            timeout_s=timeout_s,
            operators=operators,
            baseline=baseline,
        )
        if refusal := request.refusal:
            return refusal
        if request.workloads:
            return judged_on_each(request.workloads, self._judged, request.in_own_words)
        return self._judged(request)

    def _judged(self, request: EvaluationRequest) -> Verdict:
        """Return the verdict on one input set."""
        fields = self._fields(request)
        with verdict_spans.evaluation(request) as noted:
            try:
                return noted(with_retries(lambda: self._ask(fields, _ignore).result(), self._retries))
            except _JudgeLostError:
                return noted(invalid(JUDGE_DIED))

    def audit(self, problem: GivenProblem) -> dict[str, Any]:
        """Return what can be found out about a problem without a candidate: see `facts.facts_of`.

        Args:
            problem: a `Problem`, the path of its file (`pathlib.Path`), or its source.

        Raises:
            BadProblemError: the problem itself cannot be judged.
            EvaluatorError: the evaluator failed; a retry may succeed.
        """
        audited = problem_of(problem)
        facts: dict[str, Any] = self._asked(Kind.AUDIT, {"name": audited.name, "problem": audited.source})
        return facts

    def outputs(self, problem: GivenProblem, seeds: Sequence[int]) -> list[list[Output]]:
        """Return what a problem's reference computes from its own inputs, made under each of the seeds.

        The problem's code runs only in a contained worker. The result may be long: it is for programs that compare
        problems.

        Args:
            problem: a `Problem`, the path of its file (`pathlib.Path`), or its source.
            seeds: at most 64 numbers from 0 to 2**48 - 1. The same seed gives the same inputs.

        Returns:
            For each seed the tensors that forward returns.

        Raises:
            UsageError: a seed is out of range.
            BadProblemError: the problem itself cannot be run, or returns too much (`reference_outputs`).
            EvaluatorError: the evaluator failed; a retry may succeed.
        """
        if len(seeds) > MOST_SEEDS or not all(0 <= seed < 1 << 48 for seed in seeds):
            raise UsageError(f"At most {MOST_SEEDS} seeds from 0 to 2**48 - 1 were expected.", "Give 0, 1 and 2.")
        run = problem_of(problem)
        found = self._asked(Kind.ASK_OUTPUTS, {"name": run.name, "problem": run.source, "seeds": list(seeds)})
        return [[Output(tuple(one["shape"]), tuple(one["values"])) for one in outputs] for outputs in found]

    def reference_times(self, problem: GivenProblem, *, baseline: GivenBaseline | None = None) -> ReferenceTimes:
        """Time a problem's reference without a candidate: as it is, and compiled by torch.compile.

        Each form is timed by both clocks. Several problems can be timed at once: one is then compiled while another is
        timed. The compiler gets the device alone whenever it compares times; its other work on the device, the first
        call of the compiled form included, runs alongside what is being timed.

        Args:
            problem: a `Problem`, the path of its file (`pathlib.Path`), or its source.
            baseline: some of the configured baselines; None takes all.

        Raises:
            UsageError: this evaluator times nothing, or was not configured for one of the baselines.
            BadProblemError: the reference itself cannot be run or timed. A baseline that fails is only noted.
            EvaluatorError: the evaluator failed; a retry may succeed.
        """
        if not (self.config.device_kind.times and self.config.timing):
            raise UsageError(
                f"References are timed on a GPU, and this evaluator has the device {self.config.device!r} and timing "
                f"{self.config.timing}.",
                "Set device to cuda and timing to true.",
            )
        names = self._offered(None if baseline is None else checked_baselines(baseline))
        run = problem_of(problem)
        found: ReferenceTimes = self._asked(
            Kind.ASK_TIMES, {"name": run.name, "problem": run.source, "baseline": list(names)}
        )
        return found

    def _asked(self, kind: Kind, fields: dict[str, Any]) -> Any:
        """Return the judge's answer about a problem alone."""

        def ask() -> Any:
            number = next(self._numbers)
            judge = self._running_judge(fields["problem"])
            return judge.ask(number, fields | {"number": number}, _ignore, kind).result()

        try:
            return with_retries(ask, _OF_LOST_JUDGES)
        except _JudgeLostError:
            raise JudgeUnavailableError(
                "The judge process died while it ran a problem's reference, twice.", "Try again."
            ) from None

    async def evaluate_async(
        self,
        problem: GivenProblem,
        candidate: GivenCandidate,
        *,
        trials: int | None = None,
        seed: int | None = None,
        timeout_s: float | None = None,
        operators: OperatorPolicy | None = None,
        baseline: GivenBaseline | None = None,
        on_running: OnRunning | None = None,
    ) -> Verdict:
        """Like `evaluate`, for asyncio: any number can be awaited; the judge runs as many at once as it has slots.

        Args:
            on_running: called in this loop with True when work begins or continues, with False when it waits for a
                free slot. Until the first call the request waits.
        """
        request = EvaluationRequest.of(
            problem,
            candidate,
            trials=trials,
            seed=seed,
            timeout_s=timeout_s,
            operators=operators,
            baseline=baseline,
        )
        if refusal := request.refusal:
            return refusal
        listener = _in_this_loop(on_running or _ignore)
        if request.workloads:
            return await judged_on_each_async(
                request.workloads, lambda one: self._judged_async(one, listener), request.in_own_words
            )
        return await self._judged_async(request, listener)

    async def _judged_async(self, request: EvaluationRequest, listener: OnRunning) -> Verdict:
        """Like `_judged`, for asyncio."""
        fields = self._fields(request)

        async def ask() -> Verdict:
            future = await asyncio.to_thread(self._ask, fields, listener)
            return await asyncio.wrap_future(future)

        with verdict_spans.evaluation(request) as noted:
            try:
                return noted(await with_retries_async(ask, self._retries))
            except _JudgeLostError:
                return noted(invalid(JUDGE_DIED))

    def _fields(self, request: EvaluationRequest) -> dict[str, Any]:
        return {
            "name": request.problem.name,
            "problem": request.problem.source,
            "candidate": request.candidate,
            "trials": self.config.trials if request.trials is None else request.trials,
            "seed": request.seed,
            "timeout_s": float(self.config.timeout_s if request.timeout_s is None else request.timeout_s),
            "operators": self.config.operators if request.operators is None else request.operators,
            "baseline": list(self._offered(request.baseline)),
        }

    def _offered(self, wanted: tuple[BaselineName, ...] | None) -> tuple[BaselineName, ...]:
        """Return the baselines of a request; UsageError for one that this evaluator was not configured to take."""
        missing = [name for name in wanted or () if name not in self.config.baseline]
        if missing:
            raise UsageError(
                f"baseline {missing[0]} is asked for; this evaluator takes {', '.join(self.config.baseline)}.",
                "Add it to the evaluator's setting `baseline`.",
            )
        return wanted or self.config.baseline

    def _ask(self, fields: dict[str, Any], on_running: OnRunning) -> "Future[Verdict]":
        on_running(False)
        number = next(self._numbers)
        return self._running_judge(fields["problem"]).ask(number, fields | {"number": number}, on_running)

    def _running_judge(self, problem: str = "") -> _Judge:
        """Return the judge for a problem, starting it at first use or after it died.

        Each problem has a judge that knows it; another judge takes it if that one has more work, counted in whole
        rounds of its slots.
        """
        first = zlib.crc32(problem.encode("utf-8", "surrogatepass"))
        places = [(first + number) % len(self._places) for number in range(len(self._places))]
        return self._judge_at(min(places, key=lambda number: self._places[number].rounds))

    def _judge_at(self, number: int) -> _Judge:
        place = self._places[number]
        with place.lock:
            if self._closed:
                raise EvaluatorError("This evaluator is closed.", "Make a new one.")
            if place.judge is None or place.judge.dead:
                lost, place.judge = place.judge, None
                if lost is not None:
                    with self._lock:
                        self.judges_lost += 1
                    lost.stop()
                place.judge = _Judge.start(
                    self.config.of_judge(number), self._windows, beside_others=len(self._places) > 1
                )
                # If the caller forgets to close, the processes end with the interpreter or with this object.
                weakref.finalize(self, place.judge.stop)
            return place.judge

    @property
    def _judge(self) -> _Judge | None:
        return self._places[0].judge


_OF_LOST_JUDGES: Final = RetryPolicy([Retries(ONCE, of(_JudgeLostError))])


def _ignore(running: bool) -> None:
    """Do nothing: the default progress listener."""


def _in_this_loop(listener: OnRunning) -> OnRunning:
    """Return a function that schedules `listener` in the running loop, from any thread."""
    loop = asyncio.get_running_loop()

    def schedule(running: bool) -> None:
        # A closed loop has no waiting caller.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(listener, running)

    return schedule


def evaluate(
    problem: GivenProblem,
    candidate: GivenCandidate,
    config: EvaluatorConfig | None = None,
    **options: Unpack[EvaluationOptions],
) -> Verdict:
    """Judge one candidate with its own evaluator; options as for `Evaluator.evaluate`.

    Starting the evaluator takes seconds: to judge several candidates, keep an `Evaluator`.

    Args:
        problem: a `Problem`, the path of its file (`pathlib.Path`), or its source.
        candidate: Python source that defines `ModelNew`, or the path of a file of it.
        config: the evaluator's configuration; the defaults if None.
        options: `trials`, `seed`, `timeout_s`, `operators`, `baseline`.

    Example:
        verdict = evaluate(Path("19_ReLU.py"), Path("relu.py"))
    """
    # Starting takes seconds: a missing file is reported first.
    request = EvaluationRequest.from_options(problem, candidate, options)
    if refusal := request.refusal:
        return refusal
    with Evaluator(config) as evaluator:
        return evaluator.evaluate(request.problem, request.candidate, **request.options)
