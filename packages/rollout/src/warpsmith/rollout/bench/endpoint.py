"""The client of an OpenAI-compatible endpoint: one request with its retries, and a look at the endpoint before them."""

import asyncio
import json
import os
import random
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from warpsmith.rollout import retries
from warpsmith.rollout.bench.answers import Answer, Pieces
from warpsmith.rollout.bench.config import BenchConfig
from warpsmith.rollout.bench.errors import (
    KeyRefusedError,
    NoServerError,
    RequestRefusedError,
    RetryableError,
    ServerFailedError,
)
from warpsmith.rollout.bench.failures import MOST_QUOTED, Failures, message_of
from warpsmith.rollout.prompts import Message

if TYPE_CHECKING:
    import httpx

CHECK_RETRIES: Final = 2
"""Retries of the first look at an endpoint: a wrong address should be reported soon."""


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
        self._failures = Failures(config)
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
            raise self._failures.unknown_model(names)
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
            raise self._failures.failed(error) from error
        if response.status_code in (404, 405, 501):
            return None
        if response.status_code != 200:
            raise self._failures.refused(response.status_code, response.text, response.headers)
        try:
            found = response.json()["data"]
        except (ValueError, KeyError, TypeError):
            return None
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else None

    async def _answered(self, body: dict[str, Any]) -> Pieces:
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
                    raise self._failures.refused(response.status_code, text, response.headers)
                if "text/event-stream" in response.headers.get("content-type", ""):
                    return await self._streamed(response)
                return self._whole((await response.aread()).decode("utf-8", "replace"))
        except httpx.HTTPError as error:
            raise self._failures.failed(error) from error
        except TimeoutError as error:
            raise self._failures.slow(f"did not end within {self._endpoint.timeout_s:g} s") from error

    async def _streamed(self, response: "httpx.Response") -> Pieces:
        """Read server-sent events up to `[DONE]`."""
        pieces = Pieces()
        async for line in response.aiter_lines():
            if not line.startswith("data:"):
                continue
            data = line.removeprefix("data:").strip()
            if data == "[DONE]":
                return pieces
            self._take(pieces, data, "delta")
        if pieces.finish_reason is None:
            raise self._failures.broken("the stream ended before the answer did")
        return pieces

    def _whole(self, text: str) -> Pieces:
        pieces = Pieces()
        self._take(pieces, text, "message")
        if not pieces.text:
            raise self._failures.broken(f"it has no `choices`: {text[:MOST_QUOTED]}")
        return pieces

    def _take(self, pieces: Pieces, text: str, said: str) -> None:
        try:
            pieces.take(self._part(text), said)
        except ValueError as error:
            raise self._failures.broken(f"{error}: {text[:MOST_QUOTED]}") from error

    def _part(self, text: str) -> dict[str, Any]:
        try:
            part = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._failures.broken(f"it is not JSON: {text[:MOST_QUOTED]}") from error
        if not isinstance(part, dict):
            raise self._failures.broken(f"it is not an object: {text[:MOST_QUOTED]}")
        if part.get("error"):
            raise ServerFailedError(
                f"{self._endpoint.base_url} failed while it answered: {message_of(text)}.", "See the server's log."
            )
        return part
