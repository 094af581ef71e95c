"""The candidate of one evaluation: its source, and what every worker that belongs to it is asked with."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from warpsmith.evaluator.config import TIER_STRENGTH, EvaluatorConfig
from warpsmith.evaluator.judge.conversation import Conversation
from warpsmith.evaluator.judge.evidence import Evidence, seeds_for_candidates
from warpsmith.evaluator.processes.pool import Machine, Worker


@dataclass(frozen=True)
class CandidateUnderTest:
    """What every worker of a candidate is asked with.

    Attributes:
        source: the candidate's.
        machine: has the workers.
        config: limits and deadlines.
        evidence: collects what comes to light.
        conversation: with the workers, on the candidate's time.
        rng: draws what concerns this candidate's recordings alone.
        seeds: seeds that a candidate may know.
    """

    source: str
    machine: Machine
    config: EvaluatorConfig
    evidence: Evidence
    conversation: Conversation
    rng: random.Random
    seeds: Iterator[int]

    @classmethod
    def of(cls, source: str, machine: Machine, config: EvaluatorConfig, rng: random.Random) -> Self:
        """Return a candidate that nothing is known of yet; `rng` draws its seeds."""
        evidence = Evidence()
        conversation = Conversation(machine, config, evidence)
        own, seeds = random.Random(rng.getrandbits(64)), seeds_for_candidates(rng.getrandbits(256))
        return cls(source, machine, config, evidence, conversation, own, seeds)

    def note_tier(self, worker: Worker) -> None:
        """Note how far a worker is contained: the weakest of all counts."""
        known = self.evidence.tier
        self.evidence.tier = worker.tier if known is None else min(known, worker.tier, key=TIER_STRENGTH.__getitem__)
