"""Evaluation servers as the judge of a collection: killed in the middle, absent at the start, contained too weakly."""

import asyncio
import json
import logging
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from warpsmith.evaluator import (
    EvaluatorConfig,
    IsolationUnavailableError,
    OtherConditionsError,
    ServerUnreachableError,
)
from warpsmith.evaluator.fingerprint import HEADER, name_of
from warpsmith.evaluator.server.child import ServerProcess
from warpsmith.evaluator.verdict import Verdict
from warpsmith.rollout.collector import Collector
from warpsmith.rollout.config import RolloutConfig, ServerEvaluation
from warpsmith.rollout.datasets import from_generated
from warpsmith.rollout.evaluators.open import open_evaluator
from warpsmith.rollout.generator import generate


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_a_run_does_not_start_without_any_server():
    url = f"http://127.0.0.1:{closed_port()}"
    config = ServerEvaluation(servers=(url,))
    with (
        pytest.raises(ServerUnreachableError, match=url),
        open_evaluator(RolloutConfig(evaluation=config), EvaluatorConfig()),
    ):
        pass


USUAL = {"version": "1", "hidden_shapes": True}


@contextmanager
def stand_in(port, tier, verdict, conditions=USUAL):
    """A server at `tier` (a list, so that it may change) that answers everything with one verdict."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.answer({"isolation": tier[0], "conditions": conditions})

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.answer({"verdict": verdict(tier[0]).to_record()})

        def answer(self, content):
            body = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.send_header(HEADER, name_of(conditions))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{port}"
        server.shutdown()


def correct(tier):
    return Verdict("correct", True, True, isolation_tier=tier)


def not_run(tier):
    return Verdict("compile_error", False, False, error_message="from a server at " + tier)


@pytest.mark.parametrize("verdict", [correct, not_run])
def test_a_server_that_comes_up_later_and_contains_too_little_is_left_out(problem, caplog, verdict):
    later = closed_port()

    async def ask(judge):
        return [await judge.evaluate_async(problem.to_problem(), f"k{n}") for n in range(40)]

    with stand_in(closed_port(), ["namespaces"], verdict) as good:
        config = ServerEvaluation(servers=(good, f"http://127.0.0.1:{later}"), deadline_s=20)
        with (
            open_evaluator(RolloutConfig(evaluation=config), EvaluatorConfig(minimum_isolation="namespaces")) as judge,
            stand_in(later, ["none"], verdict) as weak,
            caplog.at_level(logging.WARNING),
        ):
            found = asyncio.run(ask(judge))
    assert found == [verdict("namespaces")] * 40
    warnings = [
        record.getMessage() for record in caplog.records if "contains workers at tier 'none'" in record.getMessage()
    ]
    assert len(warnings) == 1
    assert weak in warnings[0]


def test_the_last_server_that_comes_back_weaker_ends_the_run(problem):
    tier = ["namespaces"]
    with stand_in(closed_port(), tier, correct) as url:
        config = ServerEvaluation(servers=(url,), deadline_s=20)
        with open_evaluator(RolloutConfig(evaluation=config), EvaluatorConfig(minimum_isolation="landlock")) as judge:
            assert asyncio.run(judge.evaluate_async(problem.to_problem(), "k")).correct
            tier[0] = "none"
            for _ in range(2):
                with pytest.raises(IsolationUnavailableError, match="tier"):
                    asyncio.run(judge.evaluate_async(problem.to_problem(), "k"))


def test_servers_that_judge_by_other_settings_give_no_rewards_to_one_run(problem, caplog):
    other = {**USUAL, "hidden_shapes": False}

    async def ask(judge):
        return [await judge.evaluate_async(problem.to_problem(), f"k{n}") for n in range(40)]

    later = closed_port()
    with stand_in(closed_port(), ["namespaces"], correct) as good:
        with stand_in(closed_port(), ["namespaces"], correct, other) as bad:
            config = ServerEvaluation(servers=(good, bad))
            with (
                pytest.raises(OtherConditionsError, match="hidden_shapes is False"),
                open_evaluator(RolloutConfig(evaluation=config), EvaluatorConfig()),
            ):
                pass
        config = ServerEvaluation(servers=(good, f"http://127.0.0.1:{later}"), deadline_s=20)
        with (
            open_evaluator(RolloutConfig(evaluation=config), EvaluatorConfig()) as judge,
            stand_in(later, ["namespaces"], correct, other) as changed,
            caplog.at_level(logging.WARNING),
        ):
            assert all(verdict.correct for verdict in asyncio.run(ask(judge)))
    warnings = [record.getMessage() for record in caplog.records if "other conditions" in record.getMessage()]
    assert [changed in one for one in warnings] == [True]


@pytest.mark.parametrize(("judged", "asked"), [("triton", "cuda_cpp"), ("cuda_cpp", "triton")])
def test_a_server_of_another_language_than_prompts_ask_for_is_refused_at_the_start(judged, asked):
    with stand_in(closed_port(), ["namespaces"], correct, USUAL | {"language": judged}) as url:
        rollout = RolloutConfig(evaluation=ServerEvaluation(servers=(url,)))
        with (
            pytest.raises(OtherConditionsError, match=f"judges {judged}, and it is asked for {asked}") as caught,
            open_evaluator(rollout, EvaluatorConfig(language=asked)),
        ):
            pass
        assert f"Start a server of {asked} (--backend), or ask for {judged}" in caught.value.remedy
        with open_evaluator(rollout, EvaluatorConfig(language=judged)):
            pass


@pytest.mark.slow
def test_the_command_says_so_in_one_paragraph(tiny_checkpoint):
    url = f"http://127.0.0.1:{closed_port()}"
    arguments = f"evaluate {tiny_checkpoint} --set evaluation.type=server --set evaluation.servers={url}".split()
    done = subprocess.run(
        [sys.executable, "-m", "warpsmith.rollout", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    printed = " ".join(done.stderr[done.stderr.index("error: ") :].split())
    assert f"The evaluation server {url} cannot be reached" in printed
    assert printed.endswith(f"`curl {url}/health`.")


@pytest.mark.slow
def test_a_collection_goes_on_over_a_server_that_is_killed_and_comes_back(chat, scripted_sampler, monkeypatch):
    """Its token comes from the environment; it contains less than a run asks for where nobody says."""
    problems = [from_generated(p, "train") for p in generate(seed=3, count=6, levels=(1,))]
    monkeypatch.setenv("THE_TOKEN", "0123456789abcdef")
    options = ("--slots", "1", "--isolation", "none", "--token-env", "THE_TOKEN")
    servers = [ServerProcess(*options)]
    port = servers[0].port
    config = RolloutConfig(
        prompt_style="compact", prompt_tokens=3000, sampler={"max_model_len": 8192}, sampling={"max_tokens": 4096},
        environment={"max_turns": 1},
        evaluation={"type": "server", "servers": (servers[0].url,), "token_env": "THE_TOKEN"},
    )  # fmt: skip

    def killed_and_started_again():
        servers[0].await_event("request", path="/v1/evaluate")
        servers[0].kill()
        servers.append(ServerProcess(*options, port=port))

    outage = threading.Thread(target=killed_and_started_again)
    try:
        with (
            pytest.raises(IsolationUnavailableError, match="tier 'none'"),
            open_evaluator(config, EvaluatorConfig()),
        ):
            pass
        outage.start()
        with open_evaluator(config, EvaluatorConfig(minimum_isolation="none")) as judge:
            answers = [problem.solution for problem in problems]
            collector = Collector(scripted_sampler(*answers), judge, chat, config, run="r")
            rows = asyncio.run(collector.collect_rows(problems, 1, label="step-0"))
    finally:
        if outage.ident is not None:
            outage.join()
        codes = [server.terminate() for server in servers]
    assert len(servers) == 2, "the server was killed in the middle"
    assert codes[1] == 0
    assert [(row["valid"], row["reward"]) for row in rows] == [(True, 0.3)] * 6
    asked_after = [e for e in servers[1].events if e["event"] == "request" and e["path"] == "/v1/evaluate"]
    assert asked_after, "the second server judged what the first one could not"
