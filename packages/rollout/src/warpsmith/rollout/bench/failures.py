"""From an endpoint's failures to typed errors that say what to do."""

import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from warpsmith.rollout.bench.config import BenchConfig
from warpsmith.rollout.bench.errors import (
    BrokenAnswerError,
    BusyError,
    ContextTooLongError,
    EndpointError,
    KeyRefusedError,
    RequestRefusedError,
    ServerFailedError,
    SlowAnswerError,
    UnknownModelError,
)

if TYPE_CHECKING:
    import httpx

MOST_NAMED: Final = 8
MOST_QUOTED: Final = 300
LONGEST_WISH_S: Final = 600.0
"""Longest `Retry-After` that is obeyed."""
_TOO_LONG: Final = re.compile(
    r"context[_ ](length|window)|maximum context|prompt is too long|too many tokens|reduce the length", re.IGNORECASE
)
_NO_MODEL: Final = re.compile(r"model", re.IGNORECASE)


@dataclass(frozen=True)
class Failures:
    """Names what has failed.

    Args:
        config: address, model and limits, for the messages.
    """

    config: BenchConfig

    def broken(self, how: str) -> BrokenAnswerError:
        return BrokenAnswerError(
            f"{self.config.endpoint.base_url} gave no complete answer: {how}.",
            "See the server's log, or whether a proxy before it cuts answers off.",
        )

    def slow(self, how: str) -> SlowAnswerError:
        return SlowAnswerError(
            f"An answer of {self.config.endpoint.base_url} {how}.",
            "Lower --in-flight or --max-tokens, or raise endpoint.idle_timeout_s and endpoint.timeout_s.",
        )

    def failed(self, error: "httpx.HTTPError") -> EndpointError:
        """Return the typed error of a request without a response."""
        import httpx

        url = self.config.endpoint.base_url
        match error:
            case httpx.ConnectError() | httpx.ConnectTimeout():
                return ServerFailedError(
                    f"Nothing answers at {url}: {error or type(error).__name__}.",
                    "Start the server, or correct --base-url.",
                )
            case httpx.TimeoutException():
                return self.slow(f"had no byte for {self.config.endpoint.idle_timeout_s:g} s")
            case httpx.RemoteProtocolError():
                return self.broken(f"the connection was closed ({error})")
            case _:
                return ServerFailedError(f"The connection to {url} failed: {error or type(error).__name__}.")

    def refused(self, status: int, text: str, headers: "httpx.Headers") -> EndpointError:
        """Return the typed error for a response that is not usable."""
        url, said = self.config.endpoint.base_url, message_of(text)
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
            return self.unknown_model([], said) if _NO_MODEL.search(said) else self._no_route(said)
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
        name = self.config.endpoint.api_key_env
        given = f"refuses the key in {name}" if os.environ.get(name) else f"wants a key, and {name} is not set"
        return KeyRefusedError(
            f"{self.config.endpoint.base_url} {given} ({status}): {said}.",
            f"Set the environment variable {name}, or name another with --api-key-env.",
        )

    def unknown_model(self, names: list[str], said: str = "") -> UnknownModelError:
        more = ", ..." if len(names) > MOST_NAMED else ""
        has = f"it has {', '.join(sorted(names)[:MOST_NAMED])}{more}" if names else said or "it names no model"
        return UnknownModelError(
            f"{self.config.endpoint.base_url} does not have the model {self.config.model}: {has}.", "Correct --model."
        )

    def _no_route(self, said: str) -> RequestRefusedError:
        return RequestRefusedError(
            f"{self.config.endpoint.base_url} has no route /chat/completions (404): {said}.",
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
