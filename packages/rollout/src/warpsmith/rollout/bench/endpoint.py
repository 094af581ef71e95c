"""The client of an OpenAI-compatible endpoint: one request with its retries, and a look at the endpoint before them."""

import asyncio
import json
import os
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from warpsmith.rollout import retries
from warpsmith.rollout.bench.config import BenchConfig
from warpsmith.rollout.bench.errors import (
    BrokenAnswerError,
    BusyError,
    ContextTooLongError,
    EndpointError,
    KeyRefusedError,
    NoServerError,
    RequestRefusedError,
    RetryableError,
    ServerFailedError,
    SlowAnswerError,
    UnknownModelError,
)
from warpsmith.rollout.prompts import Message

if TYPE_CHECKING:
    import httpx

CHARACTERS_PER_TOKEN: Final = 3.0
"""For estimates: code has three to four characters a token in the usual vocabularies."""
TOKENS_PER_MESSAGE: Final = 8
"""What a chat template adds to a message, at most."""
MOST_NAMED: Final = 8
MOST_QUOTED: Final = 300
CHECK_RETRIES: Final = 2
"""Retries of the first look at an endpoint: a wrong address should be told soon."""
LONGEST_WISH_S: Final = 600.0
"""Longest `Retry-After` that is obeyed."""
_TOO_LONG: Final = re.compile(
    r"context[_ ](length|window)|maximum context|prompt is too long|too many tokens|reduce the length", re.IGNORECASE
)
_NO_MODEL: Final = re.compile(r"model", re.IGNORECASE)


def estimated_tokens(text: str) -> int:
    """Return about how many tokens a text has; more rather than fewer."""
    return -int(-len(text) // CHARACTERS_PER_TOKEN)


def estimated_prompt(messages: list[Message]) -> int:
    """Return about how many tokens a prompt has; more rather than fewer."""
    return sum(estimated_tokens(message["content"]) + TOKENS_PER_MESSAGE for message in messages)


@dataclass(frozen=True)
class Answer:
    """A complete answer.

    Attributes:
        text: what the model said, after thoughts in tags where the endpoint sends them apart.
        finish_reason: why it ended: `stop`, `length`, or another word of the endpoint.
        prompt_tokens, completion_tokens: as the endpoint counts them, or estimated.
        estimated: whether it did not count them.
        seconds: of the request, with retries and the waits between them, but not its wait for a place.
    """

    text: str
    finish_reason: str | None
    prompt_tokens: int
    completion_tokens: int
    estimated: bool
    seconds: float = 0.0


@dataclass
class _Pieces:
    """An answer as it comes."""

    text: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None

    def take(self, part: dict[str, Any], said: str) -> None:
        """Add a whole answer (`said` is `message`) or a piece of one (`delta`)."""
        if part.get("usage"):
            self.usage = part["usage"]
        for choice in part.get("choices") or ():
            message = choice.get(said) or {}
            self.text.append(message.get("content") or "")
            self.thoughts.append(message.get("reasoning_content") or message.get("reasoning") or "")
            self.finish_reason = choice.get("finish_reason") or self.finish_reason

    def answer(self, messages: list[Message]) -> Answer:
        text, thoughts = "".join(self.text), "".join(self.thoughts)
        usage = self.usage or {}
        prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
        known = isinstance(prompt, int) and isinstance(completion, int)
        return Answer(
            f"<think>\n{thoughts}\n</think>\n\n{text}" if thoughts else text,
            self.finish_reason,
            int(prompt) if known and prompt is not None else estimated_prompt(messages),
            int(completion) if known and completion is not None else estimated_tokens(thoughts + text),
            estimated=not known,
        )


class Endpoint:
    """Asks a model. An async context manager.

    Args:
        config: the settings.
        note: called with a line for the user when a request is retried.
    """

    def __init__(self, config: BenchConfig, note: Callable[[str], None] = lambda line: None) -> None:
        self.config = config
        self._endpoint = config.endpoint
        self._note = note
        self._places = asyncio.Semaphore(self._endpoint.in_flight)
        self._waits = retries.Backoff(self._endpoint.backoff_s, self._endpoint.max_backoff_s, random.Random())
        self._client: httpx.AsyncClient

    async def __aenter__(self) -> Self:
        import httpx

        endpoint = self._endpoint
        key = self._key()
        limits = httpx.Limits(max_connections=endpoint.in_flight, max_keepalive_connections=endpoint.in_flight)
        self._client = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(endpoint.idle_timeout_s, connect=endpoint.connect_timeout_s, pool=None),
            limits=limits,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    def _key(self) -> str:
        """Return the API key; empty if there is none."""
        name = self._endpoint.api_key_env
        key = os.environ.get(name, "").strip()
        if not (key.isascii() and key.isprintable()):
            raise KeyRefusedError(f"The key in {name} has characters that no header can have.", "Set it again.")
        return key

    async def check(self) -> None:
        """Look whether the endpoint answers, takes the key, has the model and allows its context.

        An endpoint that does not list its models is believed.

        Raises:
            FinalEndpointError: it does not, in a class that says which.
        """
        try:
            found = await self._with_retries(self._models, CHECK_RETRIES)
        except RetryableError as error:
            raise NoServerError(error.message, error.remedy) from error
        if found is None:
            return
        names = [str(one.get("id")) for one in found]
        mine = next((one for one in found if one.get("id") == self.config.model), None)
        if mine is None:
            raise self._unknown_model(names)
        longest = mine.get("max_model_len")
        if isinstance(longest, int) and longest < self.config.context_tokens:
            raise RequestRefusedError(
                f"The model {self.config.model} has a context of {longest} tokens at {self._endpoint.base_url}; "
                f"context_tokens is {self.config.context_tokens}.",
                f"Set --context {longest}, and --max-tokens to less than that.",
            )

    async def complete(self, messages: list[Message], seed: int | None) -> Answer:
        """Return the answer to a conversation; at most `endpoint.in_flight` requests run at once.

        Args:
            messages: the conversation.
            seed: seed of the sampling; None sends none.

        Raises:
            ContextTooLongError: prompt and answer do not fit the model's context.
            RetryableError: the last of several failures.
            FinalEndpointError: no request can succeed.
        """
        body = self._body(messages, seed)
        async with self._places:
            begin = time.monotonic()
            pieces = await self._with_retries(lambda: self._answered(body), self._endpoint.retries)
        found = pieces.answer(messages)
        return Answer(
            found.text, found.finish_reason, found.prompt_tokens, found.completion_tokens, found.estimated,
            time.monotonic() - begin,
        )  # fmt: skip

    async def _with_retries(self, attempt: "retries.Attempting[Any]", most: int) -> Any:
        policy = retries.for_endpoints(min(most, self._endpoint.retries))
        return await retries.with_backoff(attempt, policy, self._waits, note=self._note)

    def _body(self, messages: list[Message], seed: int | None) -> dict[str, Any]:
        sampling, endpoint = self.config.sampling, self._endpoint
        body: dict[str, Any] = {
            "model": self.config.model,
            "messages": messages,
            "temperature": sampling.temperature,
            endpoint.token_limit: sampling.max_tokens,
        }
        if sampling.top_p is not None:
            body["top_p"] = sampling.top_p
        if seed is not None:
            body["seed"] = seed
        if endpoint.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return {name: value for name, value in body.items() if name not in endpoint.omit} | endpoint.extra

    async def _models(self) -> list[dict[str, Any]] | None:
        """Return the endpoint's models; None if it has no list of them."""
        import httpx

        url = f"{self._endpoint.base_url}/models"
        try:
            response = await self._client.get(url)
        except httpx.HTTPError as error:
            raise self._failed(error) from error
        if response.status_code in (404, 405, 501):
            return None
        if response.status_code != 200:
            raise self._refused(response.status_code, response.text, response.headers)
        try:
            found = response.json()["data"]
        except (ValueError, KeyError, TypeError):
            return None
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else None

    async def _answered(self, body: dict[str, Any]) -> _Pieces:
        """Make one request and return its answer."""
        import httpx

        url = f"{self._endpoint.base_url}/chat/completions"
        try:
            async with (
                asyncio.timeout(self._endpoint.timeout_s),
                self._client.stream("POST", url, json=body) as response,
            ):
                if response.status_code != 200:
                    text = (await response.aread()).decode("utf-8", "replace")
                    raise self._refused(response.status_code, text, response.headers)
                if "text/event-stream" in response.headers.get("content-type", ""):
                    return await self._streamed(response)
                return self._whole((await response.aread()).decode("utf-8", "replace"))
        except httpx.HTTPError as error:
            raise self._failed(error) from error
        except TimeoutError as error:
            raise self._slow(f"did not end within {self._endpoint.timeout_s:g} s") from error

    async def _streamed(self, response: "httpx.Response") -> _Pieces:
        """Read server-sent events up to `[DONE]`."""
        pieces = _Pieces()
        async for line in response.aiter_lines():
            if not line.startswith("data:"):
                continue
            data = line.removeprefix("data:").strip()
            if data == "[DONE]":
                return pieces
            pieces.take(self._part(data), "delta")
        if pieces.finish_reason is None:
            raise self._broken("the stream ended before the answer did")
        return pieces

    def _whole(self, text: str) -> _Pieces:
        pieces, part = _Pieces(), self._part(text)
        if not part.get("choices"):
            raise self._broken(f"it has no `choices`: {text[:MOST_QUOTED]}")
        pieces.take(part, "message")
        return pieces

    def _part(self, text: str) -> dict[str, Any]:
        try:
            part = json.loads(text)
        except ValueError as error:
            raise self._broken(f"it is not JSON: {text[:MOST_QUOTED]}") from error
        if not isinstance(part, dict):
            raise self._broken(f"it is no object: {text[:MOST_QUOTED]}")
        if part.get("error"):
            raise ServerFailedError(
                f"{self._endpoint.base_url} failed while it answered: {message_of(text)}.", "See the server's log."
            )
        return part

    def _broken(self, how: str) -> BrokenAnswerError:
        return BrokenAnswerError(
            f"{self._endpoint.base_url} gave no complete answer: {how}.",
            "See the server's log, or whether a proxy before it cuts answers off.",
        )

    def _slow(self, how: str) -> SlowAnswerError:
        return SlowAnswerError(
            f"An answer of {self._endpoint.base_url} {how}.",
            "Lower --in-flight or --max-tokens, or raise endpoint.idle_timeout_s and endpoint.timeout_s.",
        )

    def _failed(self, error: "httpx.HTTPError") -> EndpointError:
        """Return the typed error of a request without a response."""
        import httpx

        url = self._endpoint.base_url
        match error:
            case httpx.ConnectError() | httpx.ConnectTimeout():
                return ServerFailedError(
                    f"Nothing answers at {url}: {error or type(error).__name__}.",
                    "Start the server, or correct --base-url.",
                )
            case httpx.TimeoutException():
                return self._slow(f"had no byte for {self._endpoint.idle_timeout_s:g} s")
            case httpx.RemoteProtocolError():
                return self._broken(f"the connection was closed ({error})")
            case _:
                return ServerFailedError(f"The connection to {url} failed: {error or type(error).__name__}.")

    def _refused(self, status: int, text: str, headers: "httpx.Headers") -> EndpointError:
        """Return the typed error of a response that is none."""
        url, said = self._endpoint.base_url, message_of(text)
        if status == 429:
            return BusyError(
                f"{url} has too many requests (429): {said}.", "Lower --in-flight, or raise endpoint.retries.",
                _wish(headers),
            )  # fmt: skip
        if status in (408, 409, 425) or status >= 500:
            return ServerFailedError(f"{url} failed ({status}): {said}.", "See the server's log.", _wish(headers))
        if status in (401, 403):
            return self._key_refused(status, said)
        if status == 404:
            return self._unknown_model([], said) if _NO_MODEL.search(said) else self._no_route(said)
        if _TOO_LONG.search(text):
            return ContextTooLongError(
                f"The prompt and {self.config.sampling.max_tokens} tokens of an answer do not fit the model's context: "
                f"{said}.",
                "Lower --context to the model's, or --max-tokens.",
            )
        return RequestRefusedError(
            f"{url} refuses the request ({status}): {said}.",
            "If it names a field, leave that out with --set endpoint.omit=FIELD, or set endpoint.token_limit.",
        )

    def _key_refused(self, status: int, said: str) -> KeyRefusedError:
        name = self._endpoint.api_key_env
        given = f"refuses the key in {name}" if os.environ.get(name) else f"wants a key, and {name} is not set"
        return KeyRefusedError(
            f"{self._endpoint.base_url} {given} ({status}): {said}.",
            f"Set the environment variable {name}, or name another with --api-key-env.",
        )

    def _unknown_model(self, names: list[str], said: str = "") -> UnknownModelError:
        more = ", ..." if len(names) > MOST_NAMED else ""
        has = f"it has {', '.join(sorted(names)[:MOST_NAMED])}{more}" if names else said or "it names no model"
        return UnknownModelError(
            f"{self._endpoint.base_url} does not have the model {self.config.model}: {has}.", "Correct --model."
        )

    def _no_route(self, said: str) -> RequestRefusedError:
        return RequestRefusedError(
            f"{self._endpoint.base_url} has no route /chat/completions (404): {said}.",
            "Correct --base-url; it usually ends in /v1.",
        )


def message_of(text: str) -> str:
    """Return what an endpoint's error says: the message in its JSON, else the text, shortened, without a full stop."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    inner = found.get("error", found) if isinstance(found, dict) else None
    said = inner.get("message") or inner.get("detail") if isinstance(inner, dict) else inner
    words = " ".join(str(said or text).split())[:MOST_QUOTED].rstrip(". ")
    return words or "it does not say why"


def _wish(headers: "httpx.Headers") -> float | None:
    """Return how long a response asks to wait, in seconds; None if it does not say, or gives a date."""
    try:
        return min(max(float(headers.get("retry-after", "")), 0.0), LONGEST_WISH_S)
    except ValueError:
        return None
