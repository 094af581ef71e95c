"""A client of evaluation servers. Importable without httpx, which is needed at its first use (the extra `client`)."""

import asyncio
import importlib.util
import logging
import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

from warpsmith.evaluator.client.address import is_address
from warpsmith.evaluator.client.interface import CLIENT_HEADER, LONGEST_CLIENT_NAME, GivenBaseline, OnRunning
from warpsmith.evaluator.client.loop_thread import LoopThread
from warpsmith.evaluator.client.request import EvaluationRequest
from warpsmith.evaluator.client.sources import GivenCandidate, GivenProblem
from warpsmith.evaluator.combined_verdict import judged_on_each_async
from warpsmith.evaluator.config import TIER_STRENGTH
from warpsmith.evaluator.errors import BadProblemError, EvaluatorError, IsolationUnavailableError
from warpsmith.evaluator.fingerprint import HEADER, Conditions, differences, name_of
from warpsmith.evaluator.recordings.library_policy import OperatorPolicy
from warpsmith.evaluator.verdict import Verdict, invalid
from warpsmith.records import tracing
from warpsmith.records.errors import UsageError
from warpsmith.records.wording import counted, installing

if TYPE_CHECKING:
    import httpx

_LOG = logging.getLogger(__name__)

DEFAULT_TOKEN_ENV: Final = "WARPSMITH_EVALUATOR_TOKEN"
_ROUTE: Final = "/v1/evaluate"
_CONNECT_S: Final = 5.0
_HEALTH_S: Final = 10.0
_SHORTEST_REST_S: Final = 0.25
_LONGEST_REST_S: Final = 5.0


class ServerError(EvaluatorError):
    """A server gave no verdict. `server` is its address."""

    def __init__(self, server: str, message: str, remedy: str) -> None:
        super().__init__(message, remedy)
        self.server = server

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.server, self.message, self.remedy)


class ServerUnreachableError(ServerError):
    """No server answered: nothing listens there, the network is down, or the connection broke before the answer."""


class ServerRefusedError(ServerError):
    """A server refused a request for good: wrong token, malformed, out of bounds, or it is another service."""


class OtherConditionsError(ServerError):
    """A server judges with other settings, or with another version, than the existing verdicts."""


class _LostError(Exception):
    """One attempt failed; a retry may succeed.

    Args:
        cause: what happened, with the server's address.
        rest_s: seconds until the server may be used again.
        delivered: whether the server may have started the evaluation.
        reached: whether an evaluation server answered at all.
    """

    def __init__(self, cause: str, *, rest_s: float | None = None, delivered: bool, reached: bool) -> None:
        super().__init__(cause)
        self.cause = cause
        self.rest_s = rest_s
        self.delivered = delivered
        self.reached = reached


@dataclass(eq=False)
class _Server:
    """One address and its state."""

    url: str
    running: int = 0
    failures: int = 0
    rests_until: float = 0.0
    left_out: EvaluatorError | None = None

    def rest(self, seconds: float | None) -> None:
        """Do not use the server for `seconds`, or for a time that doubles with each failure."""
        self.failures += 1
        backoff = min(_LONGEST_REST_S, _SHORTEST_REST_S * 2.0 ** min(self.failures - 1, 10))
        self.rests_until = time.monotonic() + (backoff if seconds is None else seconds) * random.uniform(0.75, 1.25)

    def recover(self) -> None:
        self.failures, self.rests_until = 0, 0.0


class Client:
    """Evaluates candidates on evaluation servers. A context manager; safe to use from threads and from asyncio.

    Each request goes to the least busy server that is not resting. A request that cannot be delivered (no connection,
    429, 503) is retried until the deadline, on other servers first. A request that was delivered and lost, or came back
    `invalid`, is retried `retries` times. `invalid` is returned as such and never becomes a score.

    Proxies from the environment are not used.

    Args:
        servers: the address of a server, for example `http://10.0.0.7:18188`, or several.
        token: the servers' token, stripped of white space; None reads the environment variable `token_env`, if set.
        token_env: name of that variable.
        deadline_s: longest time for one verdict, including waits and retries.
        retries: retries of a lost or `invalid` evaluation.
        cache: whether a server's cached verdict is accepted; None leaves it to each server.
        minimum_isolation: weakest accepted containment. A server that turns out weaker, also after a restart, is no
            longer used.
        name: distinguishes this client from others at the same address for a server, in printable ASCII: each gets its
            share of the server's devices. None shares with all at this address that have no name.
        conditions: required `conditions` in a server's `/health`; None accepts any. A server that judges under others
            is no longer used.

    Raises:
        UsageError: there is no server or no such tier, token or name is not printable ASCII, or httpx is missing.

    Example:
        with Client("http://10.0.0.7:18188") as client:
            verdict = client.evaluate(Path("19_ReLU.py"), Path("relu.py"))
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        token: str | None = None,
        token_env: str = DEFAULT_TOKEN_ENV,
        deadline_s: float = 120.0,
        retries: int = 2,
        cache: bool | None = None,
        minimum_isolation: str = "none",
        name: str | None = None,
        conditions: Conditions | None = None,
    ) -> None:
        addresses = [servers] if isinstance(servers, str) else list(servers)
        if not addresses:
            raise UsageError("No server is configured.", 'Give at least one: "http://127.0.0.1:18188".')
        for server in addresses:
            if not is_address(server):
                raise UsageError(f"{server!r} is not the address of a server.", "Write it as http://10.0.0.7:18188.")
        if minimum_isolation not in TIER_STRENGTH:
            tiers = ", ".join(TIER_STRENGTH)
            raise UsageError(f"There is no isolation tier {minimum_isolation!r}.", f"The tiers are {tiers}.")
        if importlib.util.find_spec("httpx") is None:
            raise UsageError("The client needs httpx.", installing("evaluator", "client"))
        self.deadline_s = deadline_s
        self.retries = retries
        self._weakest = minimum_isolation
        self._conditions = conditions
        self._cache_field = {} if cache is None else {"cache": cache}
        self._token_env = token_env
        self._name = _usable_name(name or "")
        self._token = _usable_token(token or os.environ.get(token_env) or "", token_env)
        self._servers = [_Server(url.rstrip("/")) for url in addresses]
        self._loop = LoopThread("evaluation client")
        self._http = self._loop.run(self._connected())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; pending requests are cancelled."""
        if self._loop.runs:
            self._loop.run(self._http.aclose())
            self._loop.close()

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
        """Return the verdict on `candidate`; arguments as for `Evaluator.evaluate`.

        The verdict is `invalid`, with the causes, if servers were reached and none gave another in time.

        Raises:
            BadProblemError: the problem itself cannot be judged.
            ServerUnreachableError: no server could be reached until the deadline.
            ServerRefusedError: a server refused the request.
            IsolationUnavailableError, OtherConditionsError: no server is left that contains workers well enough and
                judges under the `conditions`.
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
        return self._loop.run(self._judged(request))

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
        """Like `evaluate`, for asyncio; cancelling the call frees the slot on the server.

        `on_running` is not called: servers do not report when they begin. `deadline_s` counts from the call, and starts
        again for each workload.
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
        return await self._loop.awaited(self._judged(request))

    async def _judged(self, request: EvaluationRequest) -> Verdict:
        """Return the verdict, requested once per workload: a server's version may not know workloads."""
        if request.workloads:
            return await judged_on_each_async(request.workloads, self._judged, request.in_own_words)
        return await self._evaluated(_body(request) | self._cache_field)

    def health(self) -> dict[str, dict[str, Any] | ServerError]:
        """Return each server's `/health`, or the error that prevented it, by address."""
        return self._loop.run(self._healths())

    async def _connected(self) -> "httpx.AsyncClient":
        import httpx

        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        headers |= {CLIENT_HEADER: self._name} if self._name else {}
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100)
        return httpx.AsyncClient(headers=headers, limits=limits, trust_env=False)

    async def _healths(self) -> dict[str, dict[str, Any] | ServerError]:
        found = await asyncio.gather(*(self._health(server.url) for server in self._servers))
        return {server.url: health for server, health in zip(self._servers, found, strict=True)}

    async def _health(self, url: str) -> dict[str, Any] | ServerError:
        import httpx

        try:
            answer = await self._http.get(f"{url}/health", timeout=_HEALTH_S)
            health = answer.raise_for_status().json()
        except httpx.TransportError as error:
            return unreachable(url, _reason(error))
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            return _other_service(url, str(error))
        if isinstance(health, dict) and "isolation" in health:
            return health
        return _other_service(url, "its /health has another form")

    async def _evaluated(self, body: dict[str, Any]) -> Verdict:
        deadline = time.monotonic() + self.deadline_s
        causes: list[str] = []
        delivered, reached, avoided = 0, False, None
        while delivered <= self.retries:
            server = await self._next(avoided, deadline)
            if server is None:
                break
            avoided = server
            try:
                answer = await self._post(server, body, deadline)
                unfit: EvaluatorError | None = await self._other_conditions(server.url, answer)
                if unfit is None:
                    verdict = self._read(server.url, answer)
                    unfit = await self._weakness(server.url, verdict)
            except _LostError as lost:
                server.rest(lost.rest_s)
                delivered += lost.delivered
                reached |= lost.reached
                causes.append(lost.cause)
                continue
            server.recover()
            if unfit is not None:
                self._leave_out(server, unfit)
                continue
            if verdict.status != "invalid":
                return verdict
            delivered, reached = delivered + 1, True
            causes.append(f"{server.url} answered invalid: {verdict.error_message}")
        return self._none(causes, reached)

    async def _other_conditions(self, url: str, answer: "httpx.Response") -> "OtherConditionsError | None":
        """Return why a server's finding (a verdict or a bad problem) is unusable: it judges under other conditions."""
        found = answer.status_code == 200 or (answer.status_code == 422 and _kind(answer) == "bad_problem")
        if not found or self._conditions is None or answer.headers.get(HEADER) == name_of(self._conditions):
            return None
        reported = reported_conditions(await self._health_or_lost(url))
        if reported == self._conditions and HEADER in answer.headers:
            raise _LostError(f"{url} was restarted with other settings", delivered=True, reached=True)
        return other_conditions(url, reported, self._conditions)

    async def _weakness(self, url: str, verdict: Verdict) -> IsolationUnavailableError | None:
        """Return why a verdict is unusable: its server's containment is too weak."""
        if verdict.status == "invalid" or is_contained(verdict.isolation_tier, self._weakest):
            return None
        tier = verdict.isolation_tier
        if not verdict.correct:
            # A failure before any worker ran has the tier `none` everywhere; the server knows its own tier.
            tier = str((await self._health_or_lost(url))["isolation"])
        return None if is_contained(tier, self._weakest) else too_weak(url, tier, self._weakest)

    async def _health_or_lost(self, url: str) -> dict[str, Any]:
        """Return the `/health` of a server that has answered before."""
        health = await self._health(url)
        if isinstance(health, ServerError):
            raise _LostError(health.message, delivered=True, reached=True)
        return health

    def _leave_out(self, server: _Server, unfit: EvaluatorError) -> None:
        """Stop using a server; raise if it was the last one."""
        new, server.left_out = server.left_out is None, unfit
        if all(other.left_out for other in self._servers):
            raise unfit
        if new:
            _LOG.warning("%s Continuing with the other servers.", unfit)

    def _none(self, causes: list[str], reached: bool) -> Verdict:
        """Return `invalid`, or raise if no server was reached at all."""
        last = "; ".join(dict.fromkeys(causes[-3:])) or "no server was available"
        if not reached:
            raise unreachable(self._servers[0].url, f"within {self.deadline_s:g} s: {last}")
        return invalid(f"No server gave a verdict in {counted(len(causes), 'attempt')}: {last}.")

    async def _next(self, avoided: _Server | None, deadline: float) -> _Server | None:
        """Return the server to use, after waiting if all rest; None once the deadline has passed."""
        while True:
            now = time.monotonic()
            if now >= deadline:
                return None
            servers = [server for server in self._servers if server.left_out is None]
            if not servers:
                raise self._servers[0].left_out or EvaluatorError("No evaluation server is left.", "Start one.")
            ready = [server for server in servers if server.rests_until <= now]
            if ready:
                return min(ready, key=lambda server: (server is avoided, server.running, random.random()))
            soonest = min(server.rests_until for server in servers)
            await asyncio.sleep(max(0.0, min(soonest, deadline) - now))

    async def _post(self, server: _Server, body: dict[str, Any], deadline: float) -> "httpx.Response":
        import httpx

        left = max(0.05, deadline - time.monotonic())
        timeout = httpx.Timeout(left, connect=min(_CONNECT_S, left))
        server.running += 1
        try:
            async with asyncio.timeout(left):
                return await self._traced_post(server.url, body, timeout)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise _LostError(f"{server.url}: {_reason(error)}", delivered=False, reached=False) from error
        except (httpx.TimeoutException, TimeoutError) as error:
            raise _LostError(f"{server.url}: no answer by the deadline", delivered=True, reached=True) from error
        except httpx.TransportError as error:
            raise _LostError(
                f"{server.url} closed the connection before its answer: {_reason(error)}", delivered=True, reached=True
            ) from error
        finally:
            server.running -= 1

    async def _traced_post(self, url: str, body: dict[str, Any], timeout: "httpx.Timeout") -> "httpx.Response":
        """Send one attempt, as a span that the server's spans join."""
        parts = urlsplit(url)
        attributes: tracing.Attributes = {
            "http.request.method": "POST",
            "url.full": f"{url}{_ROUTE}",
            "server.address": parts.hostname,
            "server.port": parts.port,
        }
        with tracing.span(f"POST {_ROUTE}", attributes, kind="client") as span:
            answer = await self._http.post(f"{url}{_ROUTE}", json=body, timeout=timeout, headers=tracing.headers())
            span.note({"http.response.status_code": answer.status_code})
            if answer.status_code >= 400:
                span.fail(str(answer.status_code))
            return answer

    def _read(self, url: str, answer: "httpx.Response") -> Verdict:
        """Return the verdict of an answer, or raise its error."""
        match answer.status_code:
            case 200:
                return _verdict(url, answer)
            case 429 | 503:
                rest = _retry_after_s(answer)
                cause = f"{url} answered {answer.status_code}: {_message(answer)}"
                raise _LostError(cause, rest_s=rest, delivered=False, reached=True)
            case 401 | 403:
                raise ServerRefusedError(
                    url,
                    f"{url} refuses this client: {_message(answer)}",
                    f"Put the server's token into the environment variable {self._token_env}.",
                )
            case code if code >= 500:
                raise _LostError(f"{url} answered {code}: {_message(answer)}", delivered=True, reached=True)
            case 422 if _kind(answer) == "bad_problem":
                raise BadProblemError(_message(answer), "")
            case 404 | 405:
                raise _other_service(url, f"it answered {answer.status_code} to /v1/evaluate")
            case code:
                raise ServerRefusedError(
                    url,
                    f"{url} answered {code}: {_message(answer)}",
                    "Stay within its bounds; a field that it does not know belongs to another version of this package.",
                )


def _usable_token(raw: str, token_env: str) -> str | None:
    """Return a token without surrounding white space, None if empty; UsageError if a header cannot hold it."""
    token = raw.strip()
    if not token.isascii() or not token.isprintable():
        raise UsageError(
            f"The token of {len(token)} characters is not entirely printable ASCII.",
            f"Give the server's own token, for example in the environment variable {token_env}.",
        )
    return token or None


def _usable_name(name: str) -> str:
    """Return a client's name; UsageError if a header cannot hold it."""
    if not isinstance(name, str) or not name.isascii() or not name.isprintable() or len(name) > LONGEST_CLIENT_NAME:
        raise UsageError(
            f"The client's name {str(name)[:80]!r} is not of at most {LONGEST_CLIENT_NAME} printable ASCII characters.",
            "Give the name of the run, or none.",
        )
    return name


def is_contained(tier: str, weakest: str) -> bool:
    """Whether a containment is at least as strong as `weakest`; an unknown one is not."""
    return TIER_STRENGTH.get(tier, -1) >= TIER_STRENGTH[weakest]


def too_weak(url: str, tier: str, weakest: str) -> IsolationUnavailableError:
    """Return the error for a server whose containment is weaker than required."""
    return IsolationUnavailableError(
        f"The evaluation server {url} contains workers at tier {tier!r}; the run requires at least {weakest!r}.",
        "Run `warpsmith-evaluator doctor` on that machine, or lower minimum_isolation.",
    )


def reported_conditions(health: Mapping[str, Any]) -> Conditions:
    """Return the conditions in a server's `/health`; empty if it has none."""
    conditions = health.get("conditions")
    return conditions if isinstance(conditions, dict) else {}


def common_conditions(healths: Mapping[str, "dict[str, Any] | ServerError"]) -> Conditions:
    """Return the conditions under which all reachable servers judge.

    Args:
        healths: the result of `Client.health`.

    Raises:
        ServerError: no server answers.
        OtherConditionsError: one reports no conditions, or others than the first.
    """
    reached = {url: reported_conditions(found) for url, found in healths.items() if not isinstance(found, ServerError)}
    if not reached:
        raise next(error for error in healths.values() if isinstance(error, ServerError))
    expected = next(filter(None, reached.values()), {})
    for url, conditions in reached.items():
        if not conditions or conditions != expected:
            raise other_conditions(url, conditions, expected)
    return expected


def other_conditions(url: str, found: Conditions, expected: Conditions) -> "OtherConditionsError":
    """Return the error for a server that judges with other settings, or by another version, than expected."""
    difference = differences(found, expected) if found else "its /health does not name them"
    return OtherConditionsError(
        url,
        f"The evaluation server {url} judges under other conditions than required: "
        f"{difference or f'its answers lack the header {HEADER}'}.",
        "Start it with the version and the options of the others, or leave it out; a proxy must pass the header on.",
    )


def unreachable(url: str, reason: str) -> ServerUnreachableError:
    """Return the error for a server that does not answer."""
    return ServerUnreachableError(
        url,
        f"The evaluation server {url} cannot be reached: {reason}.",
        f"Start it with `warpsmith-evaluator serve`, check the address, and try `curl {url}/health`.",
    )


def _other_service(url: str, reason: str) -> ServerRefusedError:
    return ServerRefusedError(
        url,
        f"{url} is not an evaluation server of this kind: {reason}.",
        "Check address and port; `warpsmith-evaluator serve` listens on 18188 by default.",
    )


def _body(request: EvaluationRequest) -> dict[str, Any]:
    try:
        for text in (request.problem.source, request.problem.name, request.candidate):
            text.encode()
    except UnicodeEncodeError as error:
        raise EvaluatorError(f"A source is not valid Unicode: {error.reason}.", "Send valid Unicode.") from error
    options = {
        "trials": request.trials,
        "seed": request.seed,
        "timeout_s": request.timeout_s,
        "operators": request.operators,
        "baseline": request.baseline and list(request.baseline),
    }
    return {
        "problem": {"source": request.problem.source, "name": request.problem.name[:200]},
        "candidate": request.candidate,
        **{name: value for name, value in options.items() if value is not None},
    }


def _verdict(url: str, answer: "httpx.Response") -> Verdict:
    try:
        return Verdict.from_record(answer.json()["verdict"])
    except (ValueError, KeyError, TypeError) as error:
        raise ServerRefusedError(
            url,
            f"{url} answered with something that is not a verdict: {error!r}.",
            "Use the server's version of this package.",
        ) from error


def _error_of(answer: "httpx.Response") -> dict[str, Any]:
    """Return the error object of an answer, empty if the answer is not the server's own."""
    try:
        body = answer.json()
    except ValueError:
        return {}
    error = body.get("error") if isinstance(body, dict) else None
    return error if isinstance(error, dict) else {}


def _kind(answer: "httpx.Response") -> str:
    return str(_error_of(answer).get("type", ""))


def _message(answer: "httpx.Response") -> str:
    error = _error_of(answer)
    return f"{error.get('message', answer.reason_phrase)} {error.get('remedy', '')}".strip()


def _retry_after_s(answer: "httpx.Response") -> float | None:
    text = answer.headers.get("Retry-After", "")
    return min(60.0, float(text)) if text.isdecimal() else None


def _reason(error: Exception) -> str:
    import httpx

    # Its message quotes the request's headers, which include the token.
    quotes_token = isinstance(error, httpx.LocalProtocolError)
    return type(error).__name__ if quotes_token else str(error) or type(error).__name__
