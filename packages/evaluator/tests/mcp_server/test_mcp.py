"""The MCP server, asked by the SDK's own client: as a process over stdio with a real evaluator, and in process."""

import asyncio
import sys

import pytest

from warpsmith.evaluator import ERROR_CATEGORIES, FLAGS, STATUSES, Verdict
from warpsmith.evaluator.bench.example import write_example
from warpsmith.evaluator.mcp_server.evaluations import MAX_SOURCE_CHARACTERS, Limits
from warpsmith.evaluator.mcp_server.meanings import FLAG_MEANINGS, STATUS_MEANINGS, explained
from warpsmith.evaluator.verdict import invalid
from warpsmith.records.errors import UsageError

mcp = pytest.importorskip("mcp")

from mcp import Client, StdioServerParameters  # noqa: E402

from warpsmith.evaluator.mcp_server.tools import server_of  # noqa: E402

TIMED = Verdict(
    "correct", True, True, speedup=2.0, runtime_ms=0.5, reference_ms=1.0, timing_tier="two_clocks", device="H100"
)


def text_of(result):
    return "\n".join(part.text for part in result.content)


@pytest.mark.slow
def test_an_agent_over_stdio_checks_kernels_with_a_real_evaluator(tmp_path):
    problems, generations = write_example(tmp_path)
    right, wrong = (generations / f"level_1_problem_1_sample_{n}_kernel.py" for n in (0, 1))
    arguments = ["-m", "warpsmith.evaluator", "mcp", "--problems", str(problems), "--slots", "1"]

    async def agent():
        reports = []

        async def on_progress(progress, total, message):
            reports.append((progress, message))

        async with Client(StdioServerParameters(command=sys.executable, args=arguments)) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            listed = (await client.call_tool("list_problems", {"level": 1})).structured_content["result"]
            name = listed[0]["name"]
            [shown] = (await client.call_tool("list_problems", {"name": name})).structured_content["result"]
            asked = {"problem": name, "source": right.read_text()}
            good = await client.call_tool("check_kernel", asked, progress_callback=on_progress)
            bad = await client.call_tool("check_kernel", {"problem": shown["source"], "source": wrong.read_text()})
            timed = await client.call_tool("time_kernel", asked)
            missing = await client.call_tool("check_kernel", asked | {"problem": "level9/no"})
        return tools, listed, good, bad, timed, missing, reports

    tools, listed, good, bad, timed, missing, reports = asyncio.run(agent())
    assert set(tools) == {"check_kernel", "time_kernel", "explain_verdict", "list_problems"}
    assert [one["name"] for one in listed] == ["level1/1_Add_ReLU", "level1/2_Softmax"]
    assert good.structured_content["correct"] and good.structured_content["verdict"]["isolation_tier"] != "none"
    assert bad.structured_content["status"] == "incorrect" and "Wrong elements" in bad.structured_content["feedback"]
    assert timed.is_error and "--device cuda" in text_of(timed)
    assert missing.is_error and "list_problems" in text_of(missing)
    assert reports and {"The kernel is judged."} <= {message for _, message in reports}
    assert [seconds for seconds, _ in reports] == sorted(seconds for seconds, _ in reports)


class Scripted:
    """An evaluator that gives one verdict, once `gate` is open."""

    def __init__(self, verdict, gate=None):
        self.verdict, self.gate = verdict, gate

    async def evaluate_async(self, problem, candidate, **options):
        if self.gate is not None:
            await self.gate.wait()
        return self.verdict


def ask(evaluator, offered, tool, **arguments):
    async def agent():
        async with Client(server_of(evaluator, Limits(1, 1), [offered])) as client:
            return await client.call_tool(tool, arguments)

    return asyncio.run(agent())


def test_a_timed_kernel_has_its_times(add_problem):
    timed = ask(Scripted(TIMED), add_problem, "time_kernel", source="class ModelNew: ...", problem="add")
    assert (timed.structured_content["speedup"], timed.structured_content["runtime_ms"]) == (2.0, 0.5)


@pytest.mark.parametrize(
    ("verdict", "tool", "arguments", "message"),
    [
        (invalid("the judge died"), "check_kernel", {}, "says nothing about the kernel"),
        (Verdict("incorrect", True, False), "time_kernel", {}, "Only a correct kernel"),
        (TIMED, "check_kernel", {"source": "x" * (MAX_SOURCE_CHARACTERS + 1)}, "262144"),
        (TIMED, "check_kernel", {"problem": "import torch\n"}, "no Model"),
        (TIMED, "explain_verdict", {"status": "fine"}, "no status"),
    ],
)
def test_a_refusal_is_an_error_and_no_verdict(add_problem, verdict, tool, arguments, message):
    given = {"source": "class ModelNew: ...", "problem": "add"} if tool != "explain_verdict" else {}
    refused = ask(Scripted(verdict), add_problem, tool, **given | arguments)
    assert refused.is_error and message in text_of(refused)


def test_more_than_may_wait_is_refused(add_problem):
    async def agent():
        gate = asyncio.Event()
        arguments = {"source": "class ModelNew: ...", "problem": "add"}
        async with Client(server_of(Scripted(TIMED, gate), Limits(1, 1), [add_problem])) as client:
            calls = [asyncio.ensure_future(client.call_tool("check_kernel", arguments)) for _ in range(3)]
            done, waiting = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
            gate.set()
            return done.pop().result(), [(await call).structured_content["correct"] for call in waiting]

    refused, others = asyncio.run(agent())
    assert refused.is_error and "2 evaluations run or wait" in text_of(refused)
    assert others == [True, True]


def test_everything_in_a_verdict_is_explained():
    assert set(STATUS_MEANINGS) == set(STATUSES) and set(FLAG_MEANINGS) == set(FLAGS)
    text = explained("rejected", ["decoy_kernel"], ERROR_CATEGORIES[0])
    assert text.count("\n") == 2 and "decoy_kernel: " in text
    for wrong in ({"flags": ["fast"]}, {"category": "bad_luck"}):
        with pytest.raises(UsageError):
            explained("correct", **wrong)
