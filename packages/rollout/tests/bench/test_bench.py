"""Whole benches over a scripted endpoint and evaluator: strategies, budgets, losses, records, resuming, results."""

import asyncio
import json
import re
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from scripted_answers import answer, verdict_of
from scripted_endpoint import Broken, Endpoint, Fail, Said, serving

from warpsmith.evaluator import ServerUnreachableError
from warpsmith.evaluator.bench.verdict_log import VerdictLog
from warpsmith.evaluator.errors import BadProblemError
from warpsmith.evaluator.fingerprint import HEADER, name_of
from warpsmith.records.errors import UsageError
from warpsmith.records.reader import RunReader
from warpsmith.records.summary import summarize
from warpsmith.rollout import metrics
from warpsmith.rollout.bench import runner
from warpsmith.rollout.bench.errors import EndpointFailingError, KeyRefusedError, StrategyError
from warpsmith.rollout.bench.judging import Judge
from warpsmith.rollout.bench.recording import Recorder
from warpsmith.rollout.bench.results import read_result, write_result
from warpsmith.rollout.bench.runner import BenchStoppedError
from warpsmith.rollout.bench.strategies.base import Plan
from warpsmith.rollout.bench.strategies.simple import Independent

SHOWN = re.compile(r"^(?:Your (?:last|best) attempt|An earlier attempt)", re.MULTILINE)


def shown(body):
    """Return how many attempts a prompt shows."""
    return len(SHOWN.findall(body["messages"][-1]["content"]))


def rows_of(rows, turn):
    return [row for row in rows if row["turn"] == turn]


def turns_of(output):
    return RunReader(output).table("turns", latest=True).to_pylist()


def test_refining_sees_the_verdict_and_ends_with_an_honest_kernel(bench, settings_for):
    def script(body, number):
        return answer("correct") if "Half of it is wrong." in body["messages"][-1]["content"] else answer("wrong")

    with serving(Endpoint(script)) as server:
        outcomes = bench.run(settings_for(server, strategy={"type": "refine", "attempts": 4}, samples=2))
    assert {(one.ended, len(one.attempts), one.best.index) for one in outcomes} == {("solved", 2, 1)}
    assert len(server.requests) == 12
    rows = turns_of(bench.output)
    assert len(rows) == 12
    assert {(row["role"], row["task"], row["num_turns"] - row["turn"]) for row in rows} <= {
        ("bench", "refine", 1), ("bench", "refine", 2),
    }  # fmt: skip
    figures = {one["name"]: one["value"] for one in rows_of(rows, 1)[0]["verdict"]["figures"]}
    assert figures["completion_tokens"] > 0 and figures["parent"] == 0.0 and figures["generation"] == 1.0
    result = bench.result()
    assert result["scores"][-1]["correct_rate"] == 1.0 and result["scores"][-1]["speed"] is None
    assert result["ended"] == {"solved": 6}
    # Judged once for each problem: samples gave the same kernels.
    assert result["spent"]["evaluations"] == 12 and len(bench.judge.asked) == 6


def test_a_bench_is_a_run_that_records_and_metrics_read(bench, settings_for):
    with serving(Endpoint(lambda body, number: answer("correct" if number % 3 == 0 else "wrong", number))) as server:
        bench.run(settings_for(server, samples=3, endpoint={"in_flight": 1}))
    summary = summarize(RunReader(bench.output))
    assert (summary.trajectories, summary.turns, summary.invalid_turns) == (9, 9, 0)
    rates = metrics.summarise(turns_of(bench.output))
    scores = bench.result()["scores"][-1]
    assert rates.rates.correct == pytest.approx(scores["correct_rate"]) == pytest.approx(1 / 3)
    assert rates.pass_at[2] == pytest.approx(scores["pass_at"][2]) == pytest.approx(2 / 3)


def test_the_best_of_n_is_the_fastest_correct_one_and_speed_is_reported_for_each_baseline(bench, settings_for):
    words = ["wrong", "fast 0.9", "fast 2.5", "broken", "fast 1.2"]
    with serving(Endpoint(lambda body, number: answer(words[number % 5], number))) as server:
        outcomes = bench.run(
            settings_for(server, strategy={"type": "best_of_n", "attempts": 5}, endpoint={"in_flight": 1})
        )
    assert [one.best.verdict.speedup for one in outcomes] == [2.5] * 3
    assert all(shown(body) == 0 for body in server.requests)
    total = bench.result()["scores"][-1]
    assert total["speed"]["fast_p"][2.0] == 1.0
    assert total["speed_over"]["compile"]["fast_p"][1.0] == 1.0 and total["speed_over"]["compile"]["fast_p"][1.5] == 0.0
    assert total["speed_over"]["eager"]["geometric_mean"] == pytest.approx(2.5)


def test_an_evolution_shows_parents_and_mutations_of_a_file(bench, settings_for, tmp_path, problems):
    (tmp_path / "m.toml").write_text('[[mutation]]\nname = "a"\ntext = "Do it in PURPLE."\n')

    def script(body, number):
        faster = 1 + 0.1 * number if "PURPLE" in body["messages"][-1]["content"] else 1.0
        return answer(f"fast {faster:.2f}", number)

    table = {"type": "evolve", "attempts": 9, "population": 3, "children": 2, "mutations": str(tmp_path / "m.toml")}
    with serving(Endpoint(script)) as server:
        (outcome,) = bench.run(settings_for(server, strategy=table), chosen=problems[:1])
    assert [shown(body) for body in server.requests] == [0, 0, 0, 2, 2, 2, 2, 2, 2]
    assert all(body["messages"][-1]["content"].endswith("Do it in PURPLE.") for body in server.requests[3:])
    assert outcome.ended == "attempts" and outcome.best.index >= 3
    speeds = [attempt.verdict.speedup for attempt in outcome.attempts]
    parents = [speeds[attempt.plan.parents[-1]] for attempt in outcome.attempts[-2:]]
    assert max(speeds[:3]) < min(parents), "the last generation has parents that evolved"


@pytest.mark.parametrize(
    ("budget", "ended"), [({"evaluations": 2}, "evaluations"), ({"tokens": 2500}, "tokens"), ({}, "attempts")]
)
def test_a_budget_ends_a_search_before_it_is_exceeded(bench, settings_for, problems, budget, ended):
    with serving(Endpoint(lambda body, number: answer("wrong", number))) as server:
        (outcome,) = bench.run(
            settings_for(server, strategy={"type": "refine", "attempts": 6}, budget=budget), chosen=problems[:1]
        )
    spent = bench.result()["spent"]
    assert outcome.ended == ended
    assert spent["evaluations"] <= budget.get("evaluations", 99)
    assert 0 < spent["prompt_tokens"] + spent["completion_tokens"] <= budget.get("tokens", 99_999)
    assert (len(outcome.attempts) == 6) == (ended == "attempts")


@pytest.mark.parametrize("strategy", ["best_of_n", "evolve"])
def test_a_round_that_does_not_fit_at_once_is_made_in_parts(bench, settings_for, problems, strategy):
    budget = {"tokens": 6000}
    with serving(Endpoint(lambda body, number: answer("wrong", number))) as server:
        config = settings_for(
            server, strategy={"type": strategy, "attempts": 40}, budget=budget, sampling={"max_tokens": 2000}
        )
        (outcome,) = bench.run(config, chosen=problems[:1])
        assert outcome.ended == "tokens"
        spent = sum(attempt.tokens for attempt in outcome.attempts)
        # An answer has some twenty tokens: all that one of the greatest length would not fit in is spent.
        assert 6000 - 2000 - 1200 < spent <= 6000
        assert len(outcome.attempts) == len(server.requests) > 4
        (again,) = bench.run(config, chosen=problems[:1])
        assert again.known and not outcome.known
        assert again == outcome and len(server.requests) == len(outcome.attempts)


def test_answers_without_code_are_failures_that_say_why_and_cost_no_evaluation(bench, settings_for, problems):
    said = [Said(""), Said("I think that", finish_reason="length"), Said("No.", thoughts="hm"), Said("", thoughts="x")]
    with serving(Endpoint(lambda body, number: said[number])) as server:
        (outcome,) = bench.run(settings_for(server, strategy={"type": "refine", "attempts": 4}), chosen=problems[:1])
    messages = [attempt.verdict.error_message for attempt in outcome.attempts]
    assert messages[0] == messages[3] == "The answer is empty."
    assert messages[1].startswith("The answer was cut off after")
    assert "The answer is empty." in server.prompts[1]
    spent = bench.result()["spent"]
    assert (spent["evaluations"], spent["without_code"], spent["cut_off"]) == (0, 4, 1)
    assert not bench.judge.asked


def test_a_lost_attempt_has_no_score_and_is_repeated_alone_by_the_next_run(bench, settings_for):
    fails = {"now": True}

    def script(body, number):
        return Broken() if fails["now"] and number in (1, 2, 3) else answer("wrong", number)

    table = {"strategy": {"type": "best_of_n", "attempts": 2}, "endpoint": {"in_flight": 1}}
    with serving(Endpoint(script)) as server:
        config = settings_for(server, **table)
        outcomes = bench.run(config)
        assert [one.ended for one in outcomes] == ["lost", "attempts", "attempts"]
        assert "no complete answer" in outcomes[0].reason
        assert bench.result()["scores"][-1]["invalid"] == 1
        (lost,) = [row for row in turns_of(bench.output) if not row["valid"]]
        assert lost["invalid_reason"].startswith("generation: ")
        fails["now"], before = False, len(server.requests)
        assert [one.ended for one in bench.run(config)] == ["attempts"] * 3
        assert len(server.requests) == before + 1
    assert len(turns_of(bench.output)) == 6 and all(row["valid"] for row in turns_of(bench.output))


def test_a_lost_evaluation_is_repeated_on_the_answer_that_was_given(bench, settings_for, problems):
    with serving(Endpoint(lambda body, number: answer("wrong", number))) as server:
        config = settings_for(server, retries=0)
        bench.judge.rule = lambda kernel: verdict_of("x # invalid x")
        (outcome,) = bench.run(config, chosen=problems[:1])
        assert outcome.ended == "lost" and "The evaluator failed." in outcome.reason
        assert bench.result()["spent"]["completion_tokens"] > 0
        bench.judge.rule = verdict_of
        (outcome,) = bench.run(config, chosen=problems[:1])
        assert outcome.ended == "attempts"
        assert len(server.requests) == 1


def test_a_verdict_that_is_in_the_log_alone_comes_into_the_records(bench, settings_for, problems, monkeypatch):
    real, killed = Recorder.record, []

    def dies(recorder, name, made, planned):
        real(recorder, name, made, planned)
        if not killed:
            killed.append(True)
            raise KeyboardInterrupt

    with serving(Endpoint(lambda body, number: answer("wrong", number))) as server:
        config = settings_for(server)
        monkeypatch.setattr(Recorder, "record", dies)
        with pytest.raises(BenchStoppedError):
            bench.run(config, chosen=problems[:1])
        (row,) = turns_of(bench.output)
        assert not row["valid"] and row["kernel"] is not None
        monkeypatch.setattr(Recorder, "record", real)
        # As after a kill between the log and the records.
        with VerdictLog(bench.output) as log:
            judge = Judge(bench.judge, log, config, bench.described.settings["judging"])
            asyncio.run(judge.judge(problems[0], row["kernel"]))
        (outcome,) = bench.run(config, chosen=problems[:1])
    assert outcome.ended == "attempts" and len(server.requests) == len(bench.judge.asked) == 1
    (row,) = turns_of(bench.output)
    assert row["valid"] and row["verdict"]["status"] == "incorrect"


def test_a_problem_that_cannot_be_judged_or_asked_is_refused_and_the_others_go_on(bench, settings_for, problems):
    def script(body, number):
        return (
            Fail(400, "maximum context length is 5")
            if problems[1].text in body["messages"][-1]["content"]
            else (answer("wrong", problems[0].name if problems[0].text in body["messages"][-1]["content"] else ""))
        )

    bench.judge.rule = lambda kernel: (
        BadProblemError("It accepts zeros.", "") if problems[0].name in kernel else verdict_of(kernel)
    )
    with serving(Endpoint(script)) as server:
        config = settings_for(server)
        outcomes = bench.run(config)
        assert [one.ended for one in outcomes] == ["refused", "refused", "attempts"]
        assert "It accepts zeros." in outcomes[0].reason and "model's context" in outcomes[1].reason
        result, before = bench.result(), len(server.requests)
        assert result["scores"][-1]["refused"] == 2 and result["scores"][-1]["counted"] == 1
        assert [one.ended for one in bench.run(config)] == ["refused", "refused", "attempts"]
        assert len(server.requests) == before


def test_a_prompt_is_shortened_where_the_endpoint_counts_more_tokens(bench, settings_for, problems):
    def script(body, number):
        if len(body["messages"][-1]["content"]) > 7000:
            return Fail(400, "This model's maximum context length is 999 tokens.")
        return answer("wrong", "x" * 3000 + str(number))

    with serving(Endpoint(script)) as server:
        (outcome,) = bench.run(
            settings_for(server, strategy={"type": "refine", "attempts": 3}, context_tokens=6000), chosen=problems[:1]
        )
    assert outcome.ended == "attempts"
    lengths = [len(prompt) for prompt in server.prompts]
    assert len(lengths) > 3 and max(lengths) > 7000 > lengths[-1]
    # What is recorded is the prompt that was answered.
    assert turns_of(bench.output)[-1]["messages"] == server.requests[-1]["messages"]


def test_an_endpoint_that_only_fails_ends_the_bench_and_nothing_is_lost(bench, settings_for):
    fails = {"from": 4}
    with serving(
        Endpoint(lambda body, number: Fail(500, "CUDA error") if number >= fails["from"] else answer("wrong", number))
    ) as server:
        config = settings_for(server, samples=6, endpoint={"retries": 1, "give_up_after": 3, "in_flight": 2})
        with pytest.raises(EndpointFailingError, match=r"3 requests in a row failed .*CUDA error") as caught:
            bench.run(config)
        assert "The same command continues" in caught.value.remedy
        made = sum(row["valid"] for row in turns_of(bench.output))
        assert made == 4
        fails["from"] = 10**9
        before = len(server.requests)
        assert len(bench.run(config)) == 18
    assert len(server.requests) - before == 18 - 4


@pytest.mark.parametrize(
    ("plans", "part"),
    [
        (lambda attempts: [Plan(len(attempts) + 1)], r"planned the attempts \[1\] .*Number plans from 0 on"),
        (lambda attempts: [Plan(0, parents=(7,))], r"the parents \[7\]"),
        (lambda attempts: 1 / 0, "failed: ZeroDivisionError"),
    ],
)
def test_a_strategy_that_plans_what_cannot_be_made_ends_the_bench(bench, settings_for, monkeypatch, plans, part):
    monkeypatch.setattr(Independent, "plan", lambda strategy, key, attempts: plans(attempts))
    with serving(Endpoint(lambda body, number: answer("wrong"))) as server, pytest.raises(StrategyError, match=part):
        bench.run(settings_for(server))


def test_a_key_that_is_refused_in_the_middle_ends_the_bench(bench, settings_for):
    with serving(
        Endpoint(lambda body, number: Fail(403, "quota") if number == 2 else answer("wrong", number))
    ) as server:
        with pytest.raises(KeyRefusedError):
            bench.run(settings_for(server, endpoint={"in_flight": 1}))
        assert len(turns_of(bench.output)) == 2


def test_a_directory_takes_attempts_of_one_bench_alone(bench, settings_for, problems):
    with serving(Endpoint(lambda body, number: answer("wrong", number))) as server:
        bench.run(settings_for(server))
        with pytest.raises(UsageError, match=r"sampling\.temperature, seed changed"):
            bench.run(settings_for(server, seed=3, sampling={"max_tokens": 100, "temperature": 0.5}))
        with pytest.raises(UsageError, match="the problems changed"):
            bench.run(settings_for(server), chosen=problems[:2])
        # What affects no answer may change.
        bench.run(
            settings_for(server, endpoint={"in_flight": 3}, prices={"input_per_million": 1, "output_per_million": 2})
        )
        assert len(server.requests) == 3
    with pytest.raises(UsageError, match="have the same source"):
        bench.run(settings_for(server), chosen=[problems[0], problems[0]])


def test_tokens_have_a_price(bench, settings_for, problems):
    with serving(Endpoint(lambda body, number: answer("wrong"))) as server:
        bench.run(
            settings_for(server, prices={"input_per_million": 1.0, "output_per_million": 10.0}), chosen=problems[:1]
        )
    spent = bench.result()["spent"]
    assert spent["cost"] == pytest.approx((spent["prompt_tokens"] + 10 * spent["completion_tokens"]) / 1e6)
    assert spent["currency"] == "USD"


def test_a_result_is_read_back(bench, settings_for, problems):
    with serving(Endpoint(lambda body, number: answer("wrong"))) as server:
        bench.run(settings_for(server), chosen=problems[:1])
    path = write_result(bench.output, bench.result())
    found = read_result(bench.output)
    assert found == read_result(path)
    (search,) = found["searches"]
    assert (search["problem"], search["status"], search["correct"], search["ended"]) == (
        problems[0].name, "incorrect", False, "attempts",
    )  # fmt: skip


def test_settings_that_do_not_fit_are_refused_before_anything_starts(settings_for):
    server = Endpoint(None)
    server.url = "http://127.0.0.1:1/v1"
    for given, part in [
        ({"budget": {"tokens": 100}}, "does not allow one answer"),
        ({"context_tokens": 100}, "leaves no room for a prompt"),
        ({"strategy": {"type": "evolve", "attempts": 3}}, "fewer than the first ones"),
        ({"strategy": {"type": "single", "attempts": 3}}, "attempts"),
        ({"strategy": {"type": "evolv"}}, "evolve"),
        ({"prices": {"input_per_million": 1.0}}, "give both, or neither"),
        ({"evaluator": {"language": "cuda"}}, "language"),
        ({"endpoint": {"base_url": "localhost"}}, "is not an address"),
        ({"evaluation": {"type": "server", "servers": ["http://h:1"]}, "evaluator": {"device": "cuda"}}, "on servers"),
    ]:
        with pytest.raises(UsageError, match=part):
            settings_for(server, **given)
    with pytest.raises(UsageError, match=r"bench schema"):
        settings_for(server, overrides=["strategi.attempts=3"])


@pytest.fixture
def judging_server():
    """An evaluation server that judges everything wrong, under conditions of its own."""
    conditions = {"version": "9", "language": "triton", "hidden_shapes": True}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.answer({"isolation": "namespaces", "conditions": conditions})

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.answer({"verdict": replace(verdict_of("x # wrong x"), isolation_tier="namespaces").to_record()})

        def answer(self, content):
            body = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.send_header(HEADER, name_of(conditions))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_candidates_are_judged_on_servers_and_their_conditions_are_settings(
    judging_server, settings_for, problems, tmp_path
):
    with serving(Endpoint(lambda body, number: answer("correct", number))) as server:
        config = settings_for(server, evaluation={"type": "server", "servers": [judging_server]})
        described = runner.describe("run", config, problems)
        (tmp_path / "run").mkdir()
        outcomes = runner.run_bench(config, described, tmp_path / "run")
    assert [one.best.verdict.status for one in outcomes] == ["incorrect"] * 3
    judging = described.settings["judging"]
    assert (judging["judge"], judging["version"], judging["trials"]) == ("servers", "9", config.evaluator.trials)
    gone = settings_for(server, evaluation={"type": "server", "servers": ["http://127.0.0.1:9"]})
    with pytest.raises(ServerUnreachableError):
        runner.describe("run", gone, problems)
