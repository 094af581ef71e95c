"""Calls to Ray actors: each with a deadline, each failure with a type of its own."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from warpsmith.records.errors import WarpsmithError
from warpsmith.rollout.deadlines import within
from warpsmith.rollout.errors import ActorFailedError, ActorLostError, DeadlinePassedError

T = TypeVar("T")


async def answered(reference: Awaitable[T], seconds: float, who: str, what: str) -> T:
    """Return what a call to an actor gives.

    Args:
        reference: the pending call.
        seconds: its deadline; a call that nobody waits for any more is cancelled in the actor.
        who: names the actor in messages.
        what: what is waited for, for example `to start`.

    Raises:
        ActorLostError: the actor, its node or the cluster is gone.
        ActorFailedError: the method raised something that is no WarpsmithError; those arrive as they were raised.
        DeadlinePassedError: it took too long.
    """
    import ray
    from ray.exceptions import RayActorError, RayError, RayTaskError

    try:
        return await within(seconds, reference, f"{who} {what}")
    except (asyncio.CancelledError, DeadlinePassedError):
        ray.cancel(reference)
        raise
    except RayActorError as error:
        raise ActorLostError(f"The actor of {who} died: {_first_line(error)}", "It can be restarted.") from error
    except RayTaskError as error:
        # Our own errors arrive inside Ray's; the caller is to see them as they were raised.
        if isinstance(error.cause, WarpsmithError):
            raise error.cause from None
        raise ActorFailedError(f"{who} failed: {_first_line(error.cause)}", "See the actor's log.") from error
    except RayError as error:
        raise ActorLostError(f"{who} cannot be reached: {_first_line(error)}", "See Ray's log.") from error


def _first_line(error: object) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
