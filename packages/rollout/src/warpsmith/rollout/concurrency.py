"""Concurrent coroutines."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TypeVar

T = TypeVar("T")


async def all_or_first_error(coroutines: Sequence[Coroutine[None, None, T]]) -> list[T]:
    """Return all results in order; the first error cancels the others and is raised unchanged."""
    tasks = [asyncio.ensure_future(one) for one in coroutines]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
