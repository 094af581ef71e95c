"""The parts of one evaluation, which its stages share."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from warpsmith.evaluator.judge.candidate import CandidateUnderTest
from warpsmith.evaluator.judge.comparison import Comparer
from warpsmith.evaluator.judge.evidence import Evidence
from warpsmith.evaluator.judge.launches import Launches
from warpsmith.evaluator.judge.problem_facts import ProblemFacts
from warpsmith.evaluator.judge.recordings_by_form import Recordings
from warpsmith.evaluator.judge.replays import Replays
from warpsmith.evaluator.processes.machine import Machine
from warpsmith.evaluator.reference.session import ReferenceSession


@dataclass(frozen=True)
class Evaluation:
    """One candidate against one reference session.

    Attributes:
        session: gives inputs and expected answers.
        candidate: the candidate that is judged.
        launches: the launches in the candidate's recordings, and their compilation.
        recordings: records host code.
        replays: replays recordings in the player.
        comparer: compares the outputs of replays with the expected answers.
        problem: the problem's key.
        facts: known facts about problems.
    """

    session: ReferenceSession
    candidate: CandidateUnderTest
    launches: Launches
    recordings: Recordings
    replays: Replays
    comparer: Comparer
    problem: str
    facts: ProblemFacts

    @classmethod
    @contextmanager
    def open(
        cls,
        session: ReferenceSession,
        candidate: CandidateUnderTest,
        launches: Launches,
        problem: str,
        facts: ProblemFacts,
    ) -> "Iterator[Evaluation]":
        """Yield the parts of an evaluation; its workers end with the context."""
        recordings = Recordings(session, candidate, launches)
        replays = Replays(session, candidate, launches, recordings)
        with closing(replays), closing(recordings):
            comparer = Comparer(session, recordings, candidate.evidence)
            yield cls(session, candidate, launches, recordings, replays, comparer, problem, facts)

    @property
    def evidence(self) -> Evidence:
        """What was learned about the candidate."""
        return self.candidate.evidence

    @property
    def machine(self) -> Machine:
        """Provides the workers, the device and its lease."""
        return self.candidate.machine
