"""Baselines: the forms of a reference that candidates are compared with. Importable without torch."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args

BaselineName = Literal["eager", "compile", "compile_max_autotune"]
BASELINES: Final[tuple[BaselineName, ...]] = get_args(BaselineName)
EAGER: Final[BaselineName] = "eager"
MODES: Final[dict[BaselineName, str]] = {"compile": "default", "compile_max_autotune": "max-autotune-no-cudagraphs"}
"""The mode of `torch.compile` of each compiled baseline. CUDA graphs would only save host time, which is never timed,
and copy the inputs, which would count."""
BASELINE_HELP: Final = (
    "What a candidate is compared with: the reference as it is (eager), compiled by torch.compile (compile), or "
    "compiled and tuned (compile_max_autotune). Several, in a list or separated by commas, give a speedup over each; "
    "the first one's is the verdict's `speedup`."
)

NoteKind = Literal["not_compiled", "timeout", "crashed", "out_of_memory", "no_window", "lost"]
"""Why a baseline has no time: torch.compile or the compiled code raised; it took too long; it ended its process; the
device was full; other users of the device did not stand still; the evaluator failed."""
NOTE_KINDS: Final[tuple[NoteKind, ...]] = get_args(NoteKind)
LASTING: Final[frozenset[NoteKind]] = frozenset({"not_compiled", "timeout", "crashed"})
"""Kinds that another attempt would end with as well."""


@dataclass(frozen=True, slots=True)
class BaselineNote:
    """Why a verdict has no speedup over a baseline.

    Attributes:
        baseline: one of BASELINES.
        kind: one of NOTE_KINDS.
        message: the cause.
    """

    baseline: BaselineName
    kind: NoteKind
    message: str


@dataclass(frozen=True, slots=True)
class ReferenceTime:
    """The time of one form of a reference, timed alone.

    Attributes:
        ms: a call's time on the device, in milliseconds.
        low_ms: lower end of the 95 % confidence interval of the median of the timed calls.
        high_ms: its upper end.
        judge_ms: the time by the judge's clock; None if no graph of the call could be captured.
        calls: number of calls in the median.
        compile_s: seconds from the start of compiling to the last untimed call, waiting included; 0 for `eager`.
    """

    ms: float
    low_ms: float
    high_ms: float
    judge_ms: float | None
    calls: int
    compile_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ReferenceTimes:
    """The times of a problem's reference, without a candidate.

    Attributes:
        times: by baseline; those without a time are missing.
        notes: why a baseline has no time.
    """

    times: dict[BaselineName, ReferenceTime]
    notes: tuple[BaselineNote, ...] = ()

    def to_fields(self) -> dict[str, Any]:
        """Return this as plain values: dicts and lists."""
        times = {name: asdict(time) for name, time in self.times.items()}
        return {"times": times, "notes": [asdict(note) for note in self.notes]}

    @staticmethod
    def from_fields(fields: dict[str, Any]) -> "ReferenceTimes":
        """Return what `to_fields` of another process returned."""
        times = {name: ReferenceTime(**time) for name, time in fields["times"].items()}
        return ReferenceTimes(times, tuple(BaselineNote(**note) for note in fields["notes"]))


def baselines_of(given: Any) -> tuple[BaselineName, ...]:
    """Return baselines from a name, names separated by commas, or a list of either; without duplicates, in order.

    Raises:
        ValueError: there is none, or one has an unknown name.
    """
    parts = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(part, str) for part in parts):
        raise ValueError(f"{given!r} names no baselines; expected some of {', '.join(BASELINES)}")
    names = [name.strip() for part in parts for name in part.split(",") if name.strip()]
    unknown = [name for name in names if name not in BASELINES]
    if unknown or not names:
        what = f"{unknown[0][:60]!r} is no baseline" if unknown else "there is no baseline"
        raise ValueError(f"{what}; expected some of {', '.join(BASELINES)}")
    return tuple(dict.fromkeys(names))  # type: ignore[arg-type]


def compiled_ones(names: Iterable[BaselineName]) -> tuple[BaselineName, ...]:
    """Return those that torch.compile makes."""
    return tuple(name for name in names if name in MODES)
