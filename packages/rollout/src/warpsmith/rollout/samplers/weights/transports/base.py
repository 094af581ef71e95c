"""The interface of a weight transport."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from warpsmith.rollout.samplers.weights.payload import WeightPayload

if TYPE_CHECKING:
    from warpsmith.rollout.config import SamplerConfig

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WorkerCall:
    """The call that every worker process of a sampler makes to load weights.

    Args:
        method: a method of the worker: vLLM's own (`reload_weights`), or one of the transport's `worker_extension`.
        kwargs: its arguments. They must be picklable if the workers are other processes.
    """

    method: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class WeightTransport(Protocol):
    """Makes a payload of complete weights readable for the worker processes of one sampler.

    A payload is already in the sampler's own process, brought by Ray's object store. Adapters are small and always
    transferred as files.

    Attributes:
        worker_extension: `package.module.Class` whose methods vLLM adds to its workers; None if vLLM's own suffice.
    """

    worker_extension: str | None

    def ship(self, payload: WeightPayload) -> AbstractContextManager[WorkerCall]:
        """Yield the call that loads this payload; the data it refers to exists while the block lasts.

        The block is entered before sampling pauses, in a separate thread if the sampler is asynchronous: copy here, not
        in the call. An error raised here leaves the sampler unchanged; one raised by the call ends it.
        """


class TransportType(Protocol):
    """The type of entries in `warpsmith.transports`: a class, or another callable, that creates a transport."""

    def __call__(self, config: "SamplerConfig") -> WeightTransport:
        """Return a transport for one sampler; UsageError if it does not support the sampler's settings."""


@asynccontextmanager
async def entered_in_thread(manager: AbstractContextManager[T]) -> AsyncIterator[T]:
    """Enter and leave a blocking context manager without blocking the event loop."""
    with_stack = ExitStack()
    entering = asyncio.ensure_future(asyncio.to_thread(with_stack.enter_context, manager))
    try:
        yield await asyncio.shield(entering)
    finally:
        # A thread cannot be cancelled: what it creates must be complete before it can be removed.
        await asyncio.wait({entering})
        await asyncio.to_thread(with_stack.close)
