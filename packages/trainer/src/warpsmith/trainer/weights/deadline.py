"""A deadline for the waits of a sync."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from warpsmith.trainer.errors import SyncTimeoutError

T = TypeVar("T")


async def within(work: Awaitable[T], seconds: float, what: str) -> T:
    """Await `work` for at most `seconds`.

    Raises:
        SyncTimeoutError: it takes longer; `what` names it in the message.
    """
    try:
        return await asyncio.wait_for(work, seconds)
    except TimeoutError:
        raise SyncTimeoutError(
            f"{what[0].upper()}{what[1:]} took longer than {seconds:g} s.",
            "See the sampler's log; raise sync.deadline_s for large models.",
        ) from None
