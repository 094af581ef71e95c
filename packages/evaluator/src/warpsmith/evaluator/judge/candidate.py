"""The candidate of one evaluation: its source, and what the judge needs to run its workers."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from warpsmith.evaluator.config import TIER_STRENGTH, EvaluatorConfig
from warpsmith.evaluator.judge.conversation import Conversation
from warpsmith.evaluator.judge.evidence import Evidence, seeds_for_candidates
from warpsmith.evaluator.processes.machine import Machine
from warpsmith.evaluator.processes.worker import Worker


@dataclass(frozen=True)
class CandidateUnderTest:
    """A candidate, and what the judge needs to run its workers.

    Attributes:
        source: the candidate's.
        machine: provides the workers.
        config: limits and deadlines.
        evidence: what is learned about the candidate.
        conversation: talks to the workers and counts the candidate's time.
        rng: makes draws for this candidate's recordings only.
        seeds: seeds that the candidate may know.
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
        """Return a candidate with no evidence yet; `rng` draws its seeds."""
        evidence = Evidence()
        conversation = Conversation(machine, config, evidence)
        own, seeds = random.Random(rng.getrandbits(64)), seeds_for_candidates(rng.getrandbits(256))
        return cls(source, machine, config, evidence, conversation, own, seeds)

    def note_tier(self, worker: Worker) -> None:
        """Note a worker's isolation tier; the weakest counts."""
        known = self.evidence.tier
        self.evidence.tier = worker.tier if known is None else min(known, worker.tier, key=TIER_STRENGTH.__getitem__)
