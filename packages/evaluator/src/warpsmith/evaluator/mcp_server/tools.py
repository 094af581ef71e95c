"""The server and its tools."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field

from warpsmith.evaluator._version import __version__
from warpsmith.evaluator.client.interface import AsyncEvaluator
from warpsmith.evaluator.feedback import feedback
from warpsmith.evaluator.instructions import rules
from warpsmith.evaluator.mcp_server.evaluations import MAX_SOURCE_CHARACTERS, Evaluations, Limits
from warpsmith.evaluator.mcp_server.meanings import explained
from warpsmith.evaluator.problem import Problem
from warpsmith.evaluator.recordings.library_policy import OperatorPolicy
from warpsmith.evaluator.verdict import Verdict
from warpsmith.records.errors import UsageError, WarpsmithError

Source = Annotated[
    str, Field(max_length=MAX_SOURCE_CHARACTERS, description="A complete Python file that defines ModelNew.")
]
Asked = Annotated[
    str,
    Field(
        max_length=MAX_SOURCE_CHARACTERS,
        description="The problem: a name from list_problems, or the source of a module with Model and get_inputs.",
    ),
]
READ_ONLY: Final = ToolAnnotations(read_only_hint=True, open_world_hint=False)


class ListedProblem(BaseModel):
    """A problem that the server offers."""

    name: str = Field(description="Its name, for check_kernel and time_kernel.")
    level: int | None = Field(description="Its level in its collection.")
    source: str | None = Field(description="The module to rewrite, if it was asked for.")


class Checked(BaseModel):
    """The verdict on a kernel."""

    status: str = Field(description="correct, incorrect, compile_error, runtime_error, timeout, rejected, undecided.")
    correct: bool
    feedback: str = Field(description="The findings as text, one a line.")
    verdict: dict[str, Any] = Field(description="Every field of the verdict.")


class Timed(BaseModel):
    """The times of a correct kernel."""

    runtime_ms: float = Field(description="The kernel's time in milliseconds.")
    reference_ms: float = Field(description="The time of the PyTorch module in milliseconds.")
    speedup: float = Field(description="reference_ms / runtime_ms.")
    timing_tier: str = Field(description="How the time was taken.")
    feedback: str


class Tools:
    """The tools of a server, over one evaluator.

    Args:
        evaluations: judges kernels.
        problems: what `list_problems` offers.
    """

    def __init__(self, evaluations: Evaluations, problems: Sequence[Problem]) -> None:
        self._evaluations = evaluations
        self._problems = {_name(problem): problem for problem in problems}

    async def check_kernel(self, source: Source, problem: Asked, ctx: Context) -> Checked:
        """Judge a kernel in a sandbox: does ModelNew compute what the problem's Model computes, with its own kernels?

        Takes seconds. The feedback names the element, line, tensor or limit that is wrong.
        """
        verdict = await self._judged(source, problem, ctx)
        return Checked(
            status=verdict.status, correct=verdict.correct, feedback=feedback(verdict), verdict=verdict.to_record()
        )

    async def time_kernel(self, source: Source, problem: Asked, ctx: Context) -> Timed:
        """Time a correct kernel against the PyTorch module, on a GPU. A kernel that is not correct has no time."""
        verdict = await self._judged(source, problem, ctx)
        if not verdict.correct:
            raise ToolError(f"Only a correct kernel is timed.\n{feedback(verdict)}")
        if verdict.runtime_ms is None or verdict.reference_ms is None or verdict.speedup is None:
            raise ToolError("The kernel is correct, but nothing is timed here: start the server with --device cuda.")
        return Timed(
            runtime_ms=verdict.runtime_ms,
            reference_ms=verdict.reference_ms,
            speedup=verdict.speedup,
            timing_tier=verdict.timing_tier,
            feedback=feedback(verdict),
        )

    async def explain_verdict(
        self, status: str, flags: list[str] | None = None, error_category: str | None = None
    ) -> str:
        """Say what a verdict's status, flags and error category mean, and what to do."""
        try:
            return explained(status, flags or (), error_category)
        except UsageError as error:
            raise ToolError(str(error)) from error

    async def list_problems(self, level: int | None = None, name: str | None = None) -> list[ListedProblem]:
        """List the problems of this server, of a level if one is given. With a name: that one, with its source."""
        found = self._problems
        if name is not None:
            found = {name: self._named(name)}
        return [
            ListedProblem(name=key, level=problem.level, source=problem.source if name else None)
            for key, problem in found.items()
            if level in (None, problem.level)
        ]

    def _named(self, name: str) -> Problem:
        if name not in self._problems:
            raise ToolError(f"There is no problem {name!r}; list_problems has the names.")
        return self._problems[name]

    async def _judged(self, source: str, problem: str, ctx: Context) -> Verdict:
        async def report(seconds: float, phase: str) -> None:
            await ctx.report_progress(seconds, message=f"The kernel {phase}.")

        try:
            asked = Problem.from_source(problem) if "\n" in problem else self._named(problem)
            verdict = await self._evaluations.judge(asked, source, report)
        except WarpsmithError as error:
            raise ToolError(str(error)) from error
        if verdict.status == "invalid":
            raise ToolError(feedback(verdict))
        return verdict


def _name(problem: Problem) -> str:
    return problem.name if problem.level is None else f"level{problem.level}/{problem.name}"


def server_of(
    evaluator: AsyncEvaluator, limits: Limits, problems: Sequence[Problem], operators: OperatorPolicy = "none"
) -> MCPServer:
    """Return the server.

    Args:
        evaluator: judges kernels; it stays open.
        limits: how many evaluations at once.
        problems: what `list_problems` offers.
        operators: the evaluator's policy, for the instructions.
    """
    # At INFO it would write each refused call to stderr, which agents show as a failure of the server.
    server: MCPServer = MCPServer(
        "warpsmith-evaluator", version=__version__, instructions=rules(operators), log_level="WARNING"
    )
    tools = Tools(Evaluations(evaluator, limits), problems)
    for tool in (tools.check_kernel, tools.time_kernel, tools.explain_verdict, tools.list_problems):
        server.add_tool(tool, annotations=READ_ONLY)
    return server
