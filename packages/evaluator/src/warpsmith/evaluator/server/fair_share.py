"""Decides whose evaluation is next: that of the client that has used the devices least."""

from collections import Counter
from collections.abc import Iterable


class FairShare:
    """Seconds of device use by client, comparable among the clients that are present.

    While several clients wait, each gets the same device time, whatever it sends and however long its evaluations take.
    Time in which a client was absent is not saved for later: it continues where the least served present client is.
    Its use beyond that stays counted, so that leaving and returning gains nothing. This is start-time fair queueing.
    The cost of a running evaluation is estimated until it is known; estimates order clients, but only known costs
    determine where a newcomer starts.
    """

    def __init__(self) -> None:
        self._present: Counter[str] = Counter()
        self._used: dict[str, float] = {}
        self._expected: dict[str, float] = {}
        self._least = 0.0
        """Known use of the least served present client; it never falls while there is one."""

    @property
    def clients(self) -> int:
        """Clients that are present."""
        return len(self._present)

    def count(self, client: str) -> int:
        """Evaluations of a client that wait or run."""
        return self._present[client]

    def join(self, client: str) -> None:
        """Count one more evaluation of a client."""
        if not self._present[client]:
            self._advance()
            self._used[client] = max(self._used.get(client, 0.0), self._least)
            self._expected[client] = 0.0
        self._present[client] += 1

    def leave(self, client: str) -> None:
        """Count one evaluation of a client fewer."""
        self._advance()
        self._present[client] -= 1
        if self._present[client]:
            return
        del self._present[client]
        del self._expected[client]
        if not self._present:
            self._used.clear()
            self._least = 0.0
            return
        self._advance()
        self._used = {name: used for name, used in self._used.items() if name in self._present or used > self._least}

    def begin(self, client: str, expected_s: float) -> None:
        """Expect an evaluation of a present client to take so many seconds of a slot."""
        self._expected[client] += expected_s

    def end(self, client: str, expected_s: float, seconds: float) -> None:
        """Count what it took, instead of the estimate."""
        self._expected[client] -= expected_s
        self._used[client] += seconds

    def used(self, client: str) -> float:
        """Return a present client's known and expected use in seconds, from an origin common to all."""
        return self._used[client] + self._expected[client]

    def next_of(self, clients: Iterable[str]) -> str:
        """Return the present client that has used least; the first of equal ones. `clients` must not be empty."""
        return min(clients, key=self.used)

    def _advance(self) -> None:
        if self._present:
            self._least = max(self._least, min(self._used[name] for name in self._present))
