"""`[data.source]`, and each of `[[data.sources]]`: where examples of supervised fine-tuning come from."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    model_validator,
)

from warpsmith.rollout.generator import Size
from warpsmith.rollout.prompts import PromptStyle
from warpsmith.trainer.config.problems import TOUCHED_HELP, Touched, check_touched
from warpsmith.trainer.section import Section, one_of

Solutions = Literal["good", "naive", "both"]
Selection = Literal["all", "best", "first_right", "repairs"]
ExampleAgent = Literal["generator", "optimizer", "both"]
AnswerLanguage = Literal["triton", "cuda_cpp"]
ChatForm = Literal["auto", "messages", "sharegpt", "prompt_completion"]


def _one_or_several(value: Any) -> Any:
    return (value,) if isinstance(value, str | Path) else value


Paths = Annotated[tuple[Path, ...], BeforeValidator(_one_or_several), Field(min_length=1)]

_FILES = (
    "A .jsonl, .json, .parquet, .arrow or .csv file, a directory of such files, a pattern such as "
    '"data/*.parquet", or a list.'
)


class _Source(Section):
    type: str
    name: str = Field(default="", description="Name in reports and metrics; the type when empty.")
    weight: float = Field(
        default=1.0,
        gt=0,
        description="How often an example comes in an epoch; with 0.5, one takes half of them, the next the others.",
    )
    limit: int | None = Field(
        default=None, ge=1, description="Maximum examples of this source, taken from the start; by default data.limit."
    )


def _in_triton(language: AnswerLanguage) -> AnswerLanguage:
    """Refuse a language that a source of Triton kernels has no answers in."""
    if language != "triton":
        raise ValueError(
            f'this source has answers in Triton alone, none in {language}; use type = "records" with the turns of runs '
            f'that had evaluator.language = "{language}", or type = "chats", or remove the key'
        )
    return language


_Language = Annotated[
    AnswerLanguage,
    AfterValidator(_in_triton),
    # It can have one value, which no checkpoint needs to compare.
    Field(exclude=True, description="Kernel language of the answers; these are in Triton, and any other is refused."),
]


class ChatsSource(_Source):
    """Chats in files."""

    type: Literal["chats"] = "chats"
    path: Paths = Field(description=_FILES)
    form: ChatForm = Field(
        default="auto",
        description="Which columns hold a chat; `auto` finds the form of each row, and skips a row that has several.",
    )
    problem_column: str = Field(
        default="", description="Column that names a row's problem; the first user's message when empty."
    )
    deduplicate: bool = Field(default=True, description="Skip chats that are equal to an earlier one.")


class KernelbookSource(_Source):
    """The rows of KernelBook."""

    type: Literal["kernelbook"] = "kernelbook"
    path: Paths = Field(description=_FILES)
    language: _Language = "triton"
    prompt_style: PromptStyle = Field(default="full", description="Prompt template of the task.")
    deduplicate: bool = Field(default=True, description="Skip chats that are equal to an earlier one.")


class RecordsSource(_Source):
    """Turns that a policy sampled, from the records of runs."""

    type: Literal["records"] = "records"
    path: Paths = Field(description="A run's directory, or a list of them.")
    roles: tuple[str, ...] = Field(default=("train",), description="Roles of the turns to take: `train`, `held_out`.")
    statuses: tuple[str, ...] = Field(
        default=("correct",), description="Statuses of the verdicts to take, for example `correct`."
    )
    turns: Literal["all", "final"] = Field(
        default="all",
        description="`all` turns that the other keys let pass, or of these the last turns of trajectories (`final`).",
    )
    select: Selection = Field(
        default="all",
        description="Of the turns that the other keys let pass: `all`; the `best` one of each problem, or as many as "
        "`best` says; the first of each trajectory (`first_right`); or those whose turn before was not correct "
        "(`repairs`).",
    )
    min_score: float | None = Field(default=None, description="Minimum reward of a turn.")
    min_speedup: float | None = Field(
        default=None, gt=0, description="Minimum speedup; turns that were not timed are skipped."
    )
    without_flags: tuple[str, ...] = Field(
        default=(), description="Skip verdicts with one of these flags, for example torch_fallback."
    )
    best: int = Field(
        default=0,
        ge=0,
        description="Turns to take of a problem, best reward first, then speedup; 0 takes all, or with "
        'select = "best" one.',
    )
    deduplicate: bool = Field(
        default=True,
        description="Skip chats that are equal to an earlier one, and kernels that their problem has had.",
    )


class GeneratedSource(_Source):
    """Generated problems with their known solutions."""

    type: Literal["generated"] = "generated"
    problems: int = Field(default=2000, ge=1, description="Number of problems.")
    language: AnswerLanguage = Field(default="triton", description="Kernel language that is asked for and answered in.")
    levels: tuple[int, ...] = Field(default=(1, 2, 3), description="Levels of the problems.")
    size: Size = Field(default="cpu", description="Size of the problems, as in `[problems]` of the run that follows.")
    touched: Touched | None = Field(default=None, description=TOUCHED_HELP)
    solutions: Solutions = Field(
        default="good",
        description='Answers to imitate: `good`, or with size = "gpu" also `naive` (right but slow), or `both` (one of '
        "them, at even odds).",
    )
    flawed_share: float = Field(
        default=0.0, ge=0, le=1, description="Share of answers with a common bug put in on purpose."
    )
    repair_share: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="Share of examples whose prompt is that of a later turn: it shows wrong attempts and the feedback "
        "on them.",
    )
    repair_attempts: int = Field(default=1, ge=1, description="Maximum wrong attempts that such a prompt shows.")
    prompt_style: PromptStyle = Field(default="full", description="Prompt template of the task.")
    agent: ExampleAgent | None = Field(
        default=None,
        description="Who is asked, for a run with agents: `generator`, `optimizer` (starts from the naive solution and "
        "answers with the good one), or `both` (one of them, at even odds); nobody in particular when not given.",
    )
    timed: bool = Field(
        default=True,
        description="Whether an optimizer's start is shown with times, as in a run that times; else with bytes moved, "
        "as on a CPU.",
    )

    @model_validator(mode="after")
    def _touched_is_read(self) -> Self:
        check_touched(self.touched, self.size)
        return self

    @model_validator(mode="after")
    def _optimizer_has_starts(self) -> Self:
        if self.agent in ("optimizer", "both") and (self.size, self.solutions) != ("gpu", "good"):
            raise ValueError(
                f'agent = "{self.agent}" needs size = "gpu", whose problems have a naive solution to start from, and '
                'solutions = "good", the answers'
            )
        return self

    @model_validator(mode="after")
    def _has_naive_ones(self) -> Self:
        if self.size == "cpu" and self.solutions != "good":
            raise ValueError(
                f'solutions = "{self.solutions}" needs size = "gpu"; problems of size "cpu" have good ones only'
            )
        return self


Source = ChatsSource | KernelbookSource | RecordsSource | GeneratedSource
if TYPE_CHECKING:
    AnySource = Source
else:
    AnySource = one_of(ChatsSource, KernelbookSource, RecordsSource, GeneratedSource, default="generated")
