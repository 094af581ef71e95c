"""The caller's side: concurrent evaluations through one judge process. Importable without torch."""

import asyncio
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, NamedTuple, TypeGuard

from warpsmith.evaluator import _native, errors
from warpsmith.evaluator.client.sources import GivenCandidate, GivenProblem, problem_of, source_of, verdict_on_a_path
from warpsmith.evaluator.config import MAX_TIMEOUT_S, EvaluatorConfig
from warpsmith.evaluator.errors import BadProblemError, EvaluatorError, JudgeUnavailableError, WireError
from warpsmith.evaluator.ipc import codec, messages
from warpsmith.evaluator.ipc.messages import Kind, Message
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.sandbox import temp_dirs
from warpsmith.evaluator.sandbox.policies import gpu_environment
from warpsmith.evaluator.system import stderr
from warpsmith.evaluator.verdict import Verdict, invalid
from warpsmith.records.errors import UsageError

MAX_SOURCE_BYTES: Final = 4 << 20
MAX_TRIALS: Final = 1000
STDERR: Final = 2
SILENCE_S: Final = 60.0
"""How long a judge may be silent before it is pinged, and how long it may then take to answer."""
STOP_S: Final = 10.0
JUDGE_DIED: Final = "The judge process died while it evaluated this candidate, and again at the retry."


class _JudgeLostError(Exception):
    """The judge process died while it worked on a request."""


OnRunning = Callable[[bool], None]
"""Called with True when work on a request starts or resumes, and with False when it waits for other evaluations."""


class DeviceFacts(NamedTuple):
    """The device that candidates run on: its name, and the chip that kernels are compiled for (90 is sm_90)."""

    name: str
    arch: int


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

    @staticmethod
    def start(config: EvaluatorConfig) -> "_Judge":
        try:
            judge = _Judge._launched(config)
        except (OSError, _native.NativeError) as error:
            raise _cannot_start(error) from error
        try:
            fields = {"config": config.model_dump_json()}
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
    def _launched(config: EvaluatorConfig) -> "_Judge":
        """Start the process."""
        channel, fd = _native.Channel.pair()
        command = [sys.executable, "-I", "-m", "warpsmith.evaluator.judge.service", str(fd)]
        # Set before it starts: the driver reads these variables only once.
        environment = os.environ | (gpu_environment(config.gpu) if config.device == "cuda" else {})
        try:
            # A process group of its own, because Ctrl-C is for the caller, whose end of the channel then ends the rest.
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
        judge = _Judge(process, channel, {}, threading.Lock())
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
        else:
            pending.answer.set_exception(_refusal(message.fields))

    def _lost(self) -> None:
        with self.lock:
            self.dead = True
            waiting, self.waiting = self.waiting, {}
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


def _check_request(trials: object, seed: object, timeout_s: object) -> None:
    """Reject values that would silently weaken a check, or be blamed on the candidate."""
    if trials is not None and not (_is_integer(trials) and 1 <= trials <= MAX_TRIALS):
        raise UsageError(f"trials is {trials!r}; an integer from 1 to {MAX_TRIALS} was expected.", "5 is usual.")
    if seed is not None and not (_is_integer(seed) and 0 <= seed < 1 << 128):
        raise UsageError(f"seed is {seed!r}; an integer from 0 to 2**128 - 1 was expected.", "None draws one.")
    if timeout_s is not None and not (isinstance(timeout_s, int | float) and 0 < timeout_s <= MAX_TIMEOUT_S):
        raise UsageError(
            f"timeout_s is {timeout_s!r}; seconds above 0 up to {MAX_TIMEOUT_S} were expected.", "30 is usual."
        )


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


class Evaluator:
    """Judges candidates on this machine. A context manager; safe to use from several threads and from asyncio.

    Attributes:
        judges_lost: judge processes that died or were killed, as far as it was noticed.

    Example:
        with Evaluator() as evaluator:
            verdict = evaluator.evaluate(Path("19_ReLU.py"), Path("relu.py"))
        print(verdict.status, verdict.error_message)
    """

    def __init__(self, config: EvaluatorConfig | None = None) -> None:
        self.config = config or EvaluatorConfig()
        self._lock = threading.Lock()
        self._numbers = iter(range(1, 1 << 62))
        self._judge: _Judge | None = None
        self._closed = False
        self.judges_lost = 0

    def __enter__(self) -> "Evaluator":
        self._running_judge()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def facts(self) -> DeviceFacts:
        """What candidates run on; starts the judge if none runs yet."""
        facts = self._running_judge().facts
        assert facts is not None  # a running judge has sent them
        return facts

    def close(self) -> None:
        """Stop the judge and everything that it started; running evaluations end as `invalid`."""
        with self._lock:
            self._closed = True
            judge, self._judge = self._judge, None
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
    ) -> Verdict:
        """Return the verdict on `candidate`, a module that defines `ModelNew`.

        Args:
            problem: a `Problem`, the path of its file (`pathlib.Path`), or its source.
            candidate: Python source, or the path of its file. It is executed in a contained worker, never here.
            trials: correctness trials; the configuration's number by default.
            seed: makes inputs and trials repeatable; leave it None to keep them unpredictable.
            timeout_s: deadline of the candidate's whole run, in seconds; the configuration's by default.

        Raises:
            UsageError: an argument has the wrong type or is out of range.
            BadProblemError: the problem itself cannot be judged.
            IsolationUnavailableError, JudgeUnavailableError: this machine cannot run the evaluator.
        """
        source = source_of(candidate)
        if refused := verdict_on_a_path(source):
            return refused
        fields = self._request(problem_of(problem), source, trials, seed, timeout_s)
        for _ in range(2):
            try:
                return self._ask(fields, _ignore).result()
            except _JudgeLostError:
                if self._closed:
                    break
        return invalid(JUDGE_DIED)

    def audit(self, problem: GivenProblem) -> dict[str, Any]:
        """Return what can be found out about a problem without a candidate: see `facts.facts_of`.

        Args:
            problem: a `Problem`, the path of its file (`pathlib.Path`), or its source.

        Raises:
            BadProblemError: the problem itself cannot be judged.
            EvaluatorError: the evaluator failed; a retry may succeed.
        """
        audited = problem_of(problem)
        for _ in range(2):
            number = next(self._numbers)
            fields = {"number": number, "name": audited.name, "problem": audited.source}
            try:
                facts: dict[str, Any] = self._running_judge().ask(number, fields, _ignore, Kind.AUDIT).result()
            except _JudgeLostError:
                continue
            return facts
        raise JudgeUnavailableError("The judge process died while it audited a problem, twice.", "Try again.")

    async def evaluate_async(
        self,
        problem: GivenProblem,
        candidate: GivenCandidate,
        *,
        trials: int | None = None,
        seed: int | None = None,
        timeout_s: float | None = None,
        on_running: OnRunning | None = None,
    ) -> Verdict:
        """As `evaluate`, for asyncio: any number can be awaited; the judge runs as many at once as it has slots.

        Args:
            on_running: called in this loop with True when work starts or resumes, with False when it has to wait for
                other evaluations. Until the first call, and after False, the evaluation is queued.
        """
        source = source_of(candidate)
        if refused := verdict_on_a_path(source):
            return refused
        fields = self._request(problem_of(problem), source, trials, seed, timeout_s)
        listener = _in_this_loop(on_running or _ignore)
        for _ in range(2):
            try:
                future = await asyncio.to_thread(self._ask, fields, listener)
                return await asyncio.wrap_future(future)
            except _JudgeLostError:
                if self._closed:
                    break
        return invalid(JUDGE_DIED)

    def _request(
        self, problem: Problem, candidate: str, trials: int | None, seed: int | None, timeout_s: float | None
    ) -> dict[str, Any]:
        _check_request(trials, seed, timeout_s)
        if len(candidate) > MAX_SOURCE_BYTES or len(problem.source) > MAX_SOURCE_BYTES:
            raise EvaluatorError(f"A source has more than {MAX_SOURCE_BYTES} characters.", "Give a smaller one.")
        return {
            "name": problem.name,
            "problem": problem.source,
            "candidate": candidate,
            "trials": self.config.trials if trials is None else trials,
            "seed": seed,
            "timeout_s": float(self.config.timeout_s if timeout_s is None else timeout_s),
        }

    def _ask(self, fields: dict[str, Any], on_running: OnRunning) -> "Future[Verdict]":
        on_running(False)
        number = next(self._numbers)
        return self._running_judge().ask(number, fields | {"number": number}, on_running)

    def _running_judge(self) -> _Judge:
        """Return the running judge, starting one at first use or after the last one died."""
        with self._lock:
            if self._closed:
                raise EvaluatorError("This evaluator is closed.", "Make a new one.")
            if self._judge is None or self._judge.dead:
                lost, self._judge = self._judge, None
                if lost is not None:
                    self.judges_lost += 1
                    lost.stop()
                self._judge = _Judge.start(self.config)
                # If the caller forgets to close, the processes end with the interpreter or with this object.
                weakref.finalize(self, self._judge.stop)
            return self._judge


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
    problem: GivenProblem, candidate: GivenCandidate, config: EvaluatorConfig | None = None, **options: Any
) -> Verdict:
    """Judge one candidate with an evaluator of its own; options as for `Evaluator.evaluate`.

    Starting the evaluator takes seconds: to judge several candidates, keep an `Evaluator`.

    Args:
        problem: a `Problem`, the path of its file (`pathlib.Path`), or its source.
        candidate: Python source that defines `ModelNew`, or the path of a file of it.
        config: the evaluator's configuration; the defaults if None.
        options: `trials`, `seed`, `timeout_s`.

    Example:
        verdict = evaluate(Path("19_ReLU.py"), Path("relu.py"))
    """
    with Evaluator(config) as evaluator:
        return evaluator.evaluate(problem, candidate, **options)
