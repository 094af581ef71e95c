"""The caller's side: a pool of evaluations behind one judge process. Importable without torch."""

import asyncio
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Final, NamedTuple, TypeGuard

from warpsmith.evaluator import _native, errors
from warpsmith.evaluator.client.sources import GivenCandidate, GivenProblem, problem_of, source_of, verdict_on_a_path
from warpsmith.evaluator.config import MAX_TIMEOUT_S, EvaluatorConfig
from warpsmith.evaluator.errors import BadProblemError, EvaluatorError, JudgeUnavailableError, WireError
from warpsmith.evaluator.ipc import codec, messages
from warpsmith.evaluator.ipc.messages import Kind, Message
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.processes.retries import ONCE, Retries, RetryPolicy, of, with_retries, with_retries_async
from warpsmith.evaluator.sandbox import temp_dirs
from warpsmith.evaluator.system import stderr
from warpsmith.evaluator.verdict import Verdict, invalid
from warpsmith.records.errors import UsageError

MAX_SOURCE_BYTES: Final = 4 << 20
MAX_TRIALS: Final = 1000
STDERR: Final = 2
SILENCE_S: Final = 60.0
"""How long a judge may say nothing, and then leave unanswered whether it lives."""
STOP_S: Final = 10.0


class _JudgeLostError(Exception):
    """The judge process died while a request was with it."""


OnRunning = Callable[[bool], None]
"""Hears True when the work on a request begins or goes on, and False when it waits for others to end."""


class DeviceFacts(NamedTuple):
    """What a judge runs candidates on: the device's name, and the chip that kernels are compiled for (90 is sm_90)."""

    name: str
    arch: int


@dataclass
class _Owed:
    """What one request is still to get: its answer (a verdict, or facts), and meanwhile how it stands."""

    answer: "Future[Any]"
    on_running: OnRunning


@dataclass
class _Judge:
    """One running judge process and what it still owes answers to."""

    process: subprocess.Popen[bytes]
    channel: _native.Channel
    waiting: dict[int, _Owed]
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
                "Its own message stands above, on stderr; torch and triton must import without PYTHONPATH.",
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
        # From its first moment: once anything has asked the driver, what it shows does not change any more.
        environment = os.environ | config.device_kind.environment(config.gpu)
        try:
            # A group of its own: a Ctrl-C is for the caller, whose end of the channel ends all of them in order.
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
        future.set_running_or_notify_cancel()  # an asyncio caller that gives up must not take the answer's place away
        with self.lock:
            if self.dead:
                raise _JudgeLostError
            self.waiting[number] = _Owed(future, on_running)
            try:
                messages.send(self.channel, kind, fields, timeout_s=SILENCE_S)
            except _native.NativeError as error:
                # The listener may not have heard of it yet, and the next attempt must not meet the same judge.
                self.dead = True
                del self.waiting[number]
                raise _JudgeLostError from error
        return future

    def _listen(self) -> None:
        try:
            while True:
                self._hear(self._next())
        except Exception as error:  # noqa: BLE001  (whoever waits for an answer must hear that none comes)
            if not isinstance(error, _native.PeerClosed):
                stderr.tell(f"The judge is given up: {type(error).__name__}: {error}\n")
            self._lost()

    def _next(self) -> Message:
        """Receive a message. A judge that is silent is asked whether it lives; DeadlineExceeded where it says nothing.

        It answers that from a thread that does nothing else, however long evaluations take.
        """
        try:
            return messages.receive(self.channel, SILENCE_S)
        except _native.DeadlineExceeded:
            with self.lock:
                messages.send(self.channel, Kind.PING, {}, timeout_s=SILENCE_S)
            return messages.receive(self.channel, SILENCE_S)

    def _hear(self, message: Message) -> None:
        if message.kind is Kind.PONG:
            return
        number = message.fields.integer("number")
        if message.kind is Kind.PROGRESS:
            with self.lock:
                owed = self.waiting[number]
            owed.on_running(message.fields.flag("running"))
            return
        with self.lock:
            owed = self.waiting.pop(number)
        if message.kind is Kind.VERDICT:
            owed.answer.set_result(Verdict.from_record(message.fields.mapping("verdict")))
        elif message.kind is Kind.AUDITED:
            owed.answer.set_result(message.fields.mapping("facts"))
        else:
            owed.answer.set_exception(_refusal(message.fields))

    def _lost(self) -> None:
        with self.lock:
            self.dead = True
            waiting, self.waiting = self.waiting, {}
        for owed in waiting.values():
            owed.answer.set_exception(_JudgeLostError())

    def stop(self) -> None:
        """End the process; its listener must be gone before the interpreter is."""
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
        # Where the judge and its zygotes were killed together, nobody else is left to do it.
        temp_dirs.sweep()


def _cannot_start(error: Exception) -> JudgeUnavailableError:
    return JudgeUnavailableError(
        f"The judge cannot be started: {str(error).rstrip('.')}.",
        "Give this process what it lacks: processes and threads (ulimit -u), descriptors (ulimit -n), memory.",
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
    """Refuse what would weaken a check unseen, or be blamed on the candidate."""
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
        judges_lost: judge processes that ended by themselves or were killed, as far as it was noticed.

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
        # A judge that ended since this was closed is not started anew.
        self._retries = replace(_OF_LOST_JUDGES, never=lambda error: self._closed)

    def __enter__(self) -> "Evaluator":
        self._living()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def facts(self) -> DeviceFacts:
        """What candidates run on; starts the judge where none runs yet."""
        facts = self._living().facts
        assert facts is not None  # a judge that runs has told them
        return facts

    def close(self) -> None:
        """Stop the judge and everything that it started; evaluations under way end as `invalid`."""
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
            problem: what the candidate is to solve: a `Problem`, the path of its file (`pathlib.Path`), or its source.
            candidate: Python source, or the path of a file of it. It is executed in a contained worker, never here.
            trials: correctness trials; the configuration's number by default.
            seed: makes inputs and trials repeatable; leave it None so that nobody can foresee them.
            timeout_s: seconds that the candidate's whole run may take; the configuration's by default.

        Raises:
            UsageError: an argument is of another type or range.
            BadProblemError: the problem itself cannot be judged.
            IsolationUnavailableError, JudgeUnavailableError: this machine cannot run the evaluator.
        """
        source = source_of(candidate)
        if refused := verdict_on_a_path(source):
            return refused
        fields = self._request(problem_of(problem), source, trials, seed, timeout_s)
        try:
            return with_retries(lambda: self._ask(fields, _nobody).result(), self._retries)
        except _JudgeLostError:
            return _judge_died_twice()

    def audit(self, problem: GivenProblem) -> dict[str, Any]:
        """Return what can be told of a problem without a candidate: see `facts.facts_of`.

        Args:
            problem: a `Problem`, the path of its file (`pathlib.Path`), or its source.

        Raises:
            BadProblemError: the problem itself cannot be judged.
            EvaluatorError: the evaluator failed; another attempt may do.
        """
        asked = problem_of(problem)

        def ask() -> dict[str, Any]:
            number = next(self._numbers)
            fields = {"number": number, "name": asked.name, "problem": asked.source}
            facts: dict[str, Any] = self._living().ask(number, fields, _nobody, Kind.AUDIT).result()
            return facts

        try:
            return with_retries(ask, _OF_LOST_JUDGES)
        except _JudgeLostError:
            raise JudgeUnavailableError(
                "The judge process died while it audited a problem, twice.", "Ask again."
            ) from None

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
        """As `evaluate`, for asyncio: many may be awaited at once; the judge runs as many as it has slots.

        Args:
            on_running: called in this loop with True when the work begins or goes on, with False when it has to wait
                for others. Until the first call, and after False, the evaluation stands in line.
        """
        source = source_of(candidate)
        if refused := verdict_on_a_path(source):
            return refused
        fields = self._request(problem_of(problem), source, trials, seed, timeout_s)
        told = _in_this_loop(on_running or _nobody)

        async def ask() -> Verdict:
            future = await asyncio.to_thread(self._ask, fields, told)
            return await asyncio.wrap_future(future)

        try:
            return await with_retries_async(ask, self._retries)
        except _JudgeLostError:
            return _judge_died_twice()

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
        return self._living().ask(number, fields | {"number": number}, on_running)

    def _living(self) -> _Judge:
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
                # Whoever forgets to close: the processes end with the interpreter or with this object all the same.
                weakref.finalize(self, self._judge.stop)
            return self._judge


_OF_LOST_JUDGES: Final = RetryPolicy([Retries(ONCE, of(_JudgeLostError))])


def _judge_died_twice() -> Verdict:
    return invalid("The judge process died while it evaluated this candidate, and again when it was asked anew.")


def _nobody(running: bool) -> None:
    """Hear how a request stands, for callers to whom it is one."""


def _in_this_loop(listener: OnRunning) -> OnRunning:
    """Return a function that has the running loop call `listener`, whichever thread calls it."""
    loop = asyncio.get_running_loop()

    def tell(running: bool) -> None:
        # A loop that was closed has nobody left who waits.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(listener, running)

    return tell


def evaluate(
    problem: GivenProblem, candidate: GivenCandidate, config: EvaluatorConfig | None = None, **options: Any
) -> Verdict:
    """Judge one candidate with an evaluator of its own; options as for `Evaluator.evaluate`.

    Starting the evaluator takes seconds: to judge several candidates, keep an `Evaluator`.

    Args:
        problem: a `Problem`, the path of its file (`pathlib.Path`), or its source.
        candidate: Python source that defines `ModelNew`, or the path of a file of it.
        config: what it is judged by; the defaults otherwise.
        options: `trials`, `seed`, `timeout_s`.

    Example:
        verdict = evaluate(Path("19_ReLU.py"), Path("relu.py"))
    """
    with Evaluator(config) as evaluator:
        return evaluator.evaluate(problem, candidate, **options)
