"""Answers host code's build requests, for either kind of execution."""

import time
from typing import Final

from warpsmith.evaluator.errors import WireError
from warpsmith.evaluator.ipc.messages import Kind, Message
from warpsmith.evaluator.judge.conversation import Conversation
from warpsmith.evaluator.judge.launches import Launches
from warpsmith.evaluator.processes.failure_attribution import Failure
from warpsmith.evaluator.processes.worker import Worker

MAX_BUILDS: Final = 8
MAX_BUILD_BYTES: Final = 8 << 20


class BuildRequests:
    """Compiles the builds that one worker asks for.

    Args:
        launches: compiles them, and keeps what is compiled for other workers of the candidate.
        conversation: with that worker; the candidate's time stops while a build is compiled.
    """

    def __init__(self, launches: Launches, conversation: Conversation) -> None:
        self._launches = launches
        self._conversation = conversation
        self._asked = 0
        self._failed: set[str] = set()

    def answer(self, message: Message, worker: Worker) -> None:
        """Compile a build, and send the worker the result.

        Raises:
            WireError: the message is not a build request, or there are too many.
        """
        self._asked += 1
        if message.kind is not Kind.BUILD or self._asked > MAX_BUILDS:
            raise WireError(
                f"{message.kind.name} {self._asked} was received; at most {MAX_BUILDS} builds are compiled."
            )
        began = time.monotonic()
        found = self._launches.built(message.fields.text("build", MAX_BUILD_BYTES))
        self._conversation.extend(time.monotonic() - began)
        if not found.ok:
            self._failed.add(found.category)
        reply = {"ok": found.ok, "message": found.message, "category": found.category}
        reply |= {"binary": found.binaries[0] if found.ok else {}}
        worker.send(Kind.BUILT, reply, [], self._conversation.left())

    def explains(self, failure: Failure) -> bool:
        """Whether a candidate failed as one of its builds did."""
        return failure.category in self._failed
