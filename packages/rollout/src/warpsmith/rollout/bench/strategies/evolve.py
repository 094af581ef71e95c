"""`evolve`: survivors of a population are changed, generation by generation, on one island or several."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from warpsmith.rollout.bench.strategies.base import Attempt, Plan
from warpsmith.rollout.bench.strategies.config import EvolveConfig
from warpsmith.rollout.bench.strategies.mutations import Mutation, draw, read_mutations
from warpsmith.rollout.bench.strategies.ranking import best_first


@dataclass(frozen=True)
class Evolve:
    """Selection by rank, mutation by prompt.

    Each child has one parent, the best of a few survivors drawn at random, and a mutation that fits the parent's
    verdict. It ends early once an attempt is correct where nothing is timed.

    Args:
        config: sizes.
        mutations: the mutation prompts.
    """

    config: EvolveConfig
    mutations: tuple[Mutation, ...]

    def plan(self, key: str, attempts: Sequence[Attempt]) -> list[Plan]:
        """See `Strategy.plan`."""
        if any(attempt.solved_untimed for attempt in attempts):
            return []
        last = attempts[-1].plan.generation if attempts else 0
        before = [attempt for attempt in attempts if attempt.plan.generation < last]
        others = self._generation(key, before, last)[len(attempts) - len(before) :]
        return others or self._generation(key, attempts, last + 1)

    def _generation(self, key: str, before: Sequence[Attempt], generation: int) -> list[Plan]:
        """Return a whole generation, after all attempts of those before it; the last one may be cut short."""
        config = self.config
        if generation == 0:
            return [
                Plan(island * config.population + number, island=island)
                for island in range(config.islands)
                for number in range(config.population)
            ]
        survivors = survivors_of(config, before)
        # Islands take turns, so that the last generation treats them alike.
        places = [island for _ in range(config.children) for island in range(config.islands)]
        return [
            self._child(key, len(before) + number, survivors[island], island, generation)
            for number, island in enumerate(places[: config.attempts - len(before)])
        ]

    def _child(self, key: str, index: int, survivors: Sequence[Attempt], island: int, generation: int) -> Plan:
        with_code = [attempt for attempt in survivors if attempt.turn.kernel is not None]
        if not with_code:
            return Plan(index, island=island, generation=generation)
        rng = random.Random(f"{key}/{index}")
        parent = select(with_code, self.config.tournament, rng)
        others = [attempt for attempt in with_code if attempt is not parent][: self.config.inspirations]
        shown = sorted(other.index for other in others)
        mutation = draw(self.mutations, rng, correct=parent.verdict.correct)
        return Plan(index, (*shown, parent.index), mutation, island, generation)


def make(**settings: Any) -> Evolve:
    """Return the strategy of the table `[strategy]`; UsageError if its mutations cannot be used."""
    config = EvolveConfig(**settings)
    return Evolve(config, read_mutations(config.mutations))


def select(survivors: Sequence[Attempt], tournament: int, rng: random.Random) -> Attempt:
    """Return the best of `tournament` different survivors that are drawn at random."""
    return best_first(rng.sample(survivors, min(tournament, len(survivors))))[0]


def survivors_of(config: EvolveConfig, attempts: Sequence[Attempt]) -> list[list[Attempt]]:
    """Return the survivors of each island after the last generation, the best first.

    An island keeps its best `population` attempts with different kernels. After every `migrate_every` generations the
    best of each island joins the next one.

    Args:
        config: sizes.
        attempts: whole generations, in order.
    """
    generations: dict[int, list[Attempt]] = {}
    for attempt in attempts:
        generations.setdefault(attempt.plan.generation, []).append(attempt)
    survivors: list[list[Attempt]] = [[] for _ in range(config.islands)]
    for number, made in sorted(generations.items()):
        joined = [
            [*kept, *(attempt for attempt in made if attempt.plan.island == island)]
            for island, kept in enumerate(survivors)
        ]
        survivors = [_kept(island, config.population) for island in joined]
        if config.islands > 1 and number > 0 and number % config.migrate_every == 0:
            # Island 0 receives the best of the last one.
            guests = [island[:1] for island in (survivors[-1], *survivors[:-1])]
            survivors = [_kept([*own, *guest], config.population) for own, guest in zip(survivors, guests, strict=True)]
    return survivors


def _kept(attempts: Sequence[Attempt], most: int) -> list[Attempt]:
    """Return the best attempts, each kernel once."""
    kept: dict[str | None, Attempt] = {}
    for attempt in best_first(attempts):
        kept.setdefault(attempt.turn.kernel, attempt)
    return list(kept.values())[:most]
