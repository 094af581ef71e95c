"""The server as a process: TritonForge's JSON, our own routes, load, clients that leave, and the ways it ends."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import httpx
import jsonschema_rs
import psutil
import pytest

from warpsmith.evaluator import __version__
from warpsmith.evaluator.cli import main
from warpsmith.evaluator.fingerprint import HEADER, name_of
from warpsmith.evaluator.server.child import COMMAND, ServerProcess
from warpsmith.evaluator.verdict import Seconds

ADD_PROBLEM = """
import torch
class Model(torch.nn.Module):
    def forward(self, x, y):
        return x + y
def get_inputs():
    return [torch.randn(600), torch.randn(600)]
"""
ADD_CANDIDATE = """
import torch
import triton
import triton.language as tl

@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=mask) + tl.load(y_ptr + at, mask=mask), mask=mask)

class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        add_kernel[(triton.cdiv(x.numel(), 256),)](x, y, out, x.numel(), BLOCK=256)
        return out
"""
WRONG = ADD_CANDIDATE.replace("mask=mask) + tl", "mask=mask) - tl")
SLEEPER = """
import time
import torch.nn as nn
class ModelNew(nn.Module):
    def forward(self, x, y):
        time.sleep(60)
"""
FAULT = """
import ctypes
import torch
class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        ctypes.string_at(0)
"""
KERNEL_EXEC_RESULT = {
    "compiled": bool,
    "correctness": bool,
    "metadata": dict,
    "runtime": float,
    "runtime_stats": dict,
    "ref_runtime": float,
    "ref_runtime_stats": dict,
}
HEALTH = {
    "status": str,
    "gpu_platform": str,
    "cuda_available": bool,
    "supported_backends": list,
    "total_gpu_devices": int,
    "available_gpu_devices": int,
    "busy_gpu_devices": int,
    "available_device_ids": list,
    "gpu_arch": str,
    "devices": list,
    "isolation": str,
    "conditions": dict,
    "total_memory_faults": int,
    "max_faults_per_device": int,
    "gpu_settings": dict,
}


CLIENT = httpx.Client(verify=False, trust_env=False)
"""One for all tests: to make one costs as much time as several requests, while kernels that sleep go on sleeping."""


def evaluate(server, candidate, **fields):
    body = {"problem": {"source": ADD_PROBLEM}, "candidate": candidate, **fields}
    return CLIENT.post(f"{server.url}/v1/evaluate", json=body, timeout=240)


def asked_and_left(server, candidate, **fields):
    """Ask, and go away once it runs."""
    body = json.dumps({"problem": {"source": ADD_PROBLEM}, "candidate": candidate, **fields})
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("POST", "/v1/evaluate", body, {"Content-Type": "application/json"})
    until(lambda: load(server) == (1, 0))
    connection.close()


def eval_(server, candidate, **fields):
    body = {"original_model_src": ADD_PROBLEM, "custom_model_src": candidate, "backend": "triton", **fields}
    return CLIENT.post(f"{server.url}/eval", json=body, timeout=240)


def types_of(fields):
    return {name: type(value) for name, value in fields.items()}


def load(server):
    status = CLIENT.get(f"{server.url}/gpu_status").json()
    return sum(device["running"] for device in status["devices"]), status["waiting"]


def until(condition, timeout_s=20.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.01)


def test_eval_answers_as_tritonforge_does(server):
    right = eval_(server, ADD_CANDIDATE, seed=42, num_correct_trials=2, num_perf_trials=100, measure_performance=True)
    assert (right.status_code, types_of(right.json())) == (200, KERNEL_EXEC_RESULT)
    assert (right.json()["compiled"], right.json()["correctness"], right.json()["runtime"]) == (True, True, -1.0)
    assert right.json()["metadata"]["correctness_trials"] == "(2 / 2)"
    wrong = eval_(server, WRONG)
    assert (wrong.status_code, types_of(wrong.json())) == (200, KERNEL_EXEC_RESULT)
    assert (wrong.json()["compiled"], wrong.json()["correctness"]) == (True, False)
    assert "expected" in wrong.json()["metadata"]["correctness_issue"]
    broken = eval_(server, "x =")
    assert (broken.status_code, broken.json()["compiled"]) == (200, False)
    assert broken.json()["metadata"]["error_category"] == "syntax_error"
    bad_problem = httpx.post(f"{server.url}/eval", json={"original_model_src": "x", "custom_model_src": "y"})
    assert (bad_problem.status_code, bad_problem.json()["error"]["type"]) == (400, "bad_problem")


def test_the_very_json_of_tritonforges_client_is_answered_with_its_very_fields(server):
    """As its client sends it: `seed` for `seed_num`, no backend, every option said."""
    content = json.dumps(
        {
            "original_model_src": ADD_PROBLEM,
            "custom_model_src": ADD_CANDIDATE,
            "seed": 42,
            "num_correct_trials": 5,
            "num_perf_trials": 100,
            "verbose": False,
            "measure_performance": True,
            "preferred_device": None,
        }
    )
    answer = httpx.post(f"{server.url}/eval", content=content, headers={"Content-Type": "application/json"}, timeout=60)
    result = answer.json()
    assert (answer.status_code, list(result)) == (200, list(KERNEL_EXEC_RESULT))
    assert (result["compiled"], result["correctness"], result["runtime"], result["ref_runtime"]) == (
        True,
        True,
        -1.0,
        -1.0,
    )
    assert (result["runtime_stats"], result["ref_runtime_stats"]) == ({}, {})
    assert result["metadata"]["hardware"] == "cpu"


def test_both_names_of_the_seed_repeat_the_trials(server):
    element = {
        name: eval_(server, WRONG, **seed).json()["metadata"]["correctness_issue"]
        for name, seed in {"seed": {"seed": 3}, "seed_num": {"seed_num": 3}, "other": {"seed": 4}, "none": {}}.items()
    }
    assert element["seed"] == element["seed_num"]
    assert len(set(element.values())) == 3


def test_health_and_fault_statistics_answer_as_tritonforge_do(server):
    health = httpx.get(f"{server.url}/health").json()
    assert types_of(health) == HEALTH
    assert health["conditions"].items() >= {"device": "cpu", "hidden_shapes": True, "version": __version__}.items()
    for answer in (eval_(server, WRONG), evaluate(server, WRONG), httpx.get(f"{server.url}/none"), evaluate(server, 1)):
        assert answer.headers[HEADER] == name_of(health["conditions"]), answer
    assert set(health["devices"][0]) == {"device_id", "available", "status", "fault_count"}
    assert (health["status"], health["supported_backends"], health["max_faults_per_device"]) == (
        "healthy",
        ["triton"],
        10,
    )
    faults = httpx.get(f"{server.url}/fault_statistics").json()
    assert set(faults) == {"per_device_faults", "total_faults", "max_faults_threshold", "devices_near_limit"}


def test_a_memory_fault_is_counted_and_a_reset_brings_a_fresh_evaluator(server):
    before = httpx.get(f"{server.url}/fault_statistics").json()["total_faults"]
    verdict = evaluate(server, FAULT).json()["verdict"]
    assert verdict["status"] == "runtime_error", verdict
    after = httpx.get(f"{server.url}/fault_statistics").json()
    assert (after["total_faults"], after["per_device_faults"]) == (before + 1, {"0": before + 1})
    done = httpx.post(f"{server.url}/reset_gpu/0", timeout=240).json()
    assert (done["old_fault_count"], done["new_fault_count"]) == (before + 1, 0)
    assert evaluate(server, ADD_CANDIDATE).json()["verdict"]["correct"]
    assert httpx.post(f"{server.url}/reset_gpu/1").status_code == 400
    assert httpx.post(f"{server.url}/cleanup").json()["old_fault_counts"] == {"0": 0}


def test_v1_tells_the_whole_verdict_and_a_batch_streams_as_results_come(server):
    verdict = evaluate(server, ADD_CANDIDATE, trials=1).json()["verdict"]
    assert (verdict["status"], verdict["trials"], verdict["seconds"].keys()) == (
        "correct",
        1,
        asdict(Seconds()).keys(),
    )
    sleeper = {"problem": {"source": ADD_PROBLEM}, "candidate": SLEEPER, "timeout_s": 4}
    quick = {"problem": {"source": ADD_PROBLEM}, "candidate": ADD_CANDIDATE, "trials": 1}
    bad = {"problem": {"source": "x"}, "candidate": ADD_CANDIDATE}
    lines, running = [], []
    with httpx.stream(
        "POST", f"{server.url}/v1/evaluate/batch", json={"items": [sleeper, quick, bad]}, timeout=240
    ) as s:
        for line in s.iter_lines():
            lines.append(json.loads(line))
            running.append(load(server)[0])
    assert [line["index"] for line in lines] == [2, 1, 0]
    assert lines[0]["error"]["type"] == "bad_problem"
    assert lines[1]["verdict"]["correct"]
    assert running[1] == 1, "the quick one did not wait for the slow one"
    assert lines[2]["verdict"]["status"] == "timeout"


def test_answers_are_those_that_openapi_describes(server):
    schema = httpx.get(f"{server.url}/openapi.json").json()

    def of(route):
        (content,) = schema["paths"][route]["post"]["responses"]["200"]["content"].values()
        return jsonschema_rs.validator_for({"components": schema["components"], **content["schema"]})

    fields = schema["components"]["schemas"]
    for candidate in (ADD_CANDIDATE, WRONG, "x ="):
        verdict = evaluate(server, candidate, trials=1)
        of("/v1/evaluate").validate(verdict.json())
        assert verdict.json()["verdict"].keys() == fields["Verdict"]["properties"].keys()
        answer = eval_(server, candidate, num_correct_trials=1).json()
        of("/eval").validate(answer)
        assert answer.keys() == fields["ExecResult"]["properties"].keys()
        assert answer["metadata"].keys() <= fields["ExecMetadata"]["properties"].keys()
    items = [{"problem": {"source": source}, "candidate": WRONG, "trials": 1} for source in (ADD_PROBLEM, "x")]
    batch = httpx.post(f"{server.url}/v1/evaluate/batch", json={"items": items}, timeout=60)
    lines = [json.loads(line) for line in batch.text.splitlines()]
    assert len(lines) == 2
    for line in lines:
        of("/v1/evaluate/batch").validate(line)
    with pytest.raises(jsonschema_rs.ValidationError):
        of("/v1/evaluate").validate({"verdict": {"status": "splendid"}})


def test_under_load_health_answers_and_more_is_turned_away(server):
    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(evaluate, server, SLEEPER, timeout_s=5) for _ in range(2)]
        until(lambda: load(server) == (2, 0))
        asked += [threads.submit(evaluate, server, "x =") for _ in range(2)]
        until(lambda: load(server) == (2, 2))
        health = CLIENT.get(f"{server.url}/health").json()
        assert (health["busy_gpu_devices"], health["status"]) == (1, "healthy")
        assert load(server) == (2, 2), "it answered while all slots were busy"
        turned_away = evaluate(server, ADD_CANDIDATE)
        assert turned_away.status_code == 429
        assert 1 <= int(turned_away.headers["Retry-After"]) <= 60
        batch = {"items": [{"problem": {"source": ADD_PROBLEM}, "candidate": "x"}] * 5}
        assert CLIENT.post(f"{server.url}/v1/evaluate/batch", json=batch).status_code == 413
        statuses = [answer.result().json()["verdict"]["status"] for answer in asked]
        assert statuses == ["timeout", "timeout", "compile_error", "compile_error"]
    assert load(server) == (0, 0)


def figure(server, name):
    figures = CLIENT.get(f"{server.url}/metrics").text
    found = re.search(rf"^warpsmith_evaluator_{re.escape(name)} (\S+)$", figures, flags=re.MULTILINE)
    return float(found[1]) if found else 0.0


def abandoned(server):
    return figure(server, "abandoned_total")


def test_a_client_that_goes_away_frees_its_place(server):
    before = abandoned(server)
    with ThreadPoolExecutor(2) as threads:
        running = [threads.submit(evaluate, server, SLEEPER, timeout_s=7) for _ in range(2)]
        until(lambda: load(server) == (2, 0))
        for _ in range(2):
            with pytest.raises(httpx.ReadTimeout):
                CLIENT.post(
                    f"{server.url}/v1/evaluate",
                    json={"problem": {"source": ADD_PROBLEM}, "candidate": ADD_CANDIDATE},
                    timeout=httpx.Timeout(5, read=0.7),
                )
        with pytest.raises(httpx.ReadTimeout):
            items = [{"problem": {"source": ADD_PROBLEM}, "candidate": ADD_CANDIDATE}] * 2
            CLIENT.post(f"{server.url}/v1/evaluate/batch", json={"items": items}, timeout=httpx.Timeout(5, read=0.7))
        until(lambda: load(server) == (2, 0))
        assert all(answer.result().status_code == 200 for answer in running)
    assert abandoned(server) == before + 3


def test_a_verdict_that_nobody_waited_for_is_counted(server):
    until(lambda: load(server) == (0, 0))
    before = figure(server, 'verdicts_total{status="timeout"}'), abandoned(server)
    asked_and_left(server, SLEEPER, timeout_s=2)
    until(lambda: figure(server, 'verdicts_total{status="timeout"}') == before[0] + 1)
    assert abandoned(server) == before[1] + 1


def test_a_kept_verdict_needs_no_place_in_the_queue(server):
    source = f"{ADD_CANDIDATE}\n# kept\n"
    # A verdict that had to be tried twice is not kept, as on a busy machine.
    until(lambda: evaluate(server, source, seed=7, cache=True).json()["verdict"]["cached"], 60)
    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(evaluate, server, SLEEPER, timeout_s=5) for _ in range(2)]
        until(lambda: load(server) == (2, 0))
        asked += [threads.submit(evaluate, server, "x =") for _ in range(2)]
        until(lambda: load(server) == (2, 2))
        assert evaluate(server, source, seed=7).status_code == 429
        kept = evaluate(server, source, seed=7, cache=True).json()["verdict"]
        assert (kept["status"], kept["cached"], kept["seconds"]["evaluate"]) == ("correct", True, 0.0)
        assert load(server) == (2, 2), "it answered once there was room"
        assert all(answer.result().status_code == 200 for answer in asked)


def test_what_is_judged_again_is_not_called_a_kept_verdict(server):
    for _ in range(2):
        verdict = evaluate(server, f"{ADD_CANDIDATE}\n# again\n").json()["verdict"]
        assert (verdict["status"], verdict["cached"], verdict["seconds"]["evaluate"] > 0) == ("correct", False, True)
    assert verdict["compile_cached"]


def test_the_log_has_a_line_a_request_with_its_id_and_no_source(server):
    evaluate_id = "my-request-7"
    body = {"problem": {"source": ADD_PROBLEM}, "candidate": ADD_CANDIDATE, "trials": 1}
    httpx.post(f"{server.url}/v1/evaluate", json=body, headers={"X-Request-ID": evaluate_id}, timeout=60)
    event = server.await_event("request", request_id=evaluate_id)
    assert (event["path"], event["code"], event["status"]) == ("/v1/evaluate", 200, "correct")
    assert "add_kernel" not in json.dumps(server.events)


def test_figures_are_reported_to_prometheus(server):
    evaluate(server, WRONG)
    figures = httpx.get(f"{server.url}/metrics").text
    assert 'warpsmith_evaluator_verdicts_total{status="incorrect"}' in figures
    assert "warpsmith_evaluator_slots 2.0" in figures
    assert 'route="/v1/evaluate"' in figures


def refused(*options, **environment):
    done = subprocess.run(
        [*COMMAND, *options], capture_output=True, text=True, env={**os.environ, **environment}, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


def test_what_cannot_be_served_is_said_in_one_paragraph(server):
    secret = "x" * 20
    cases = [
        (f"Port {server.port} of 127.0.0.1 is taken", ("--port", str(server.port)), {}),
        ("can run code here", ("--host", "0.0.0.0", "--port", "0"), {}),
        ("16 printable", ("--port", "0"), {"WARPSMITH_EVALUATOR_TOKEN": "short"}),
        ("is not an address", ("--host", "x" * 64, "--port", "0"), {}),
        ("Cannot listen", ("--host", "192.0.2.1", "--port", "0"), {"WARPSMITH_EVALUATOR_TOKEN": secret}),
    ]
    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(refused, *options, **environment) for _, options, environment in cases]
    for (says, _, _), answer in zip(cases, asked, strict=True):
        assert says in answer.result()


def test_a_missing_extra_is_named_with_the_command_that_brings_it():
    code = (
        "import sys; sys.modules['fastapi'] = None\n"
        "from warpsmith.evaluator.cli import main; sys.argv[1:] = ['serve']; main()"
    )
    done = subprocess.run([COMMAND[0], "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "lacks" in done.stderr
    assert "./packages/evaluator[serve]" in done.stderr.replace("\n", "")


@pytest.mark.slow
def test_two_judges_are_two_devices_and_after_sigterm_what_runs_is_finished_and_nothing_new_is_taken():
    options = ("--judges", "2", "--slots", "1", "--drain", "60")
    with ServerProcess(*options) as server, ThreadPoolExecutor(3) as threads:
        health = httpx.get(f"{server.url}/health").json()
        assert (health["total_gpu_devices"], health["available_device_ids"]) == (2, [0, 1])
        slow = threads.submit(evaluate, server, SLEEPER, timeout_s=2, preferred_device=1)
        until(lambda: httpx.get(f"{server.url}/health").json()["available_device_ids"] == [0])
        assert evaluate(server, ADD_CANDIDATE).json()["verdict"]["correct"]
        assert slow.result().json()["verdict"]["status"] == "timeout"
        assert evaluate(server, ADD_CANDIDATE, preferred_device=2).json()["error"]["type"] == "no_such_device"
        assert eval_(server, ADD_CANDIDATE, preferred_device=2).status_code == 400
        assert eval_(server, FAULT, preferred_device=1).json()["compiled"] is False
        assert httpx.get(f"{server.url}/fault_statistics").json()["per_device_faults"] == {"0": 0, "1": 1}
        figures = httpx.get(f"{server.url}/metrics").text
        assert 'warpsmith_evaluator_device_in_service{device="1"} 1.0' in figures

        slow = [threads.submit(evaluate, server, SLEEPER, timeout_s=2, preferred_device=device) for device in (0, 1)]
        until(lambda: load(server) == (2, 0))
        waiting = threads.submit(evaluate, server, ADD_CANDIDATE)
        until(lambda: load(server) == (2, 1))
        assert server.terminate() == 0
        assert [answer.result().json()["verdict"]["status"] for answer in slow] == ["timeout"] * 2
        assert waiting.result().json()["verdict"]["status"] == "correct"
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{server.url}/health")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--gpu", "0"], "--device is cpu"),
        (["--device", "cuda", "--judges", "2"], "--device is cuda"),
        (["--device", "cuda", "--gpu", "1", "--gpu", "1"], "a GPU twice: 1, 1"),
        (["--timed-trials", "5"], "0, or 10 and more"),
        (["--queue", "200000"], "100000"),
        (["--timeout", "3601"], "3600"),
    ],
)
def test_options_that_contradict_one_another_are_refused(options, says, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["warpsmith-evaluator", "serve", *options])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert says in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_it_listens_ends_it_as_one_after_does(number):
    started = subprocess.Popen([*COMMAND, "--port", "0", "--slots", "1"], stderr=subprocess.PIPE, text=True)
    parent = psutil.Process(started.pid)
    until(parent.children, 120)
    judges = parent.children()
    started.send_signal(number)
    # Judges share its stderr, and hear of its end once they have started.
    said = started.communicate(timeout=240)[1]
    assert started.returncode == 0
    (line,) = said.splitlines()
    assert (json.loads(line)["event"], json.loads(line)["signal"]) == ("stopping", number.name)
    assert psutil.wait_procs(judges, timeout=240)[1] == []


@pytest.mark.slow
def test_a_killed_judge_is_reported_and_what_does_not_end_in_its_time_after_sigterm_is_invalid_with_the_cause():
    with ServerProcess("--slots", "1", "--drain", "0.5") as server, ThreadPoolExecutor(3) as threads:
        lost = threads.submit(evaluate, server, SLEEPER, timeout_s=3)
        until(lambda: load(server) == (1, 0))
        (judge,) = psutil.Process(server.process.pid).children()
        judge.kill()
        assert lost.result().json()["verdict"]["status"] == "timeout"
        event = server.await_event("judge lost")
        assert (event["device"], event["times"], event["level"]) == (0, 1, "warning")
        assert figure(server, "judges_lost_total") == 1

        asked = [threads.submit(evaluate, server, SLEEPER, timeout_s=60) for _ in range(2)]
        old_way = threads.submit(eval_, server, SLEEPER)
        until(lambda: load(server) == (1, 2))
        began = time.monotonic()
        assert server.terminate() == 0
        assert time.monotonic() - began < 50, "it waited for what sleeps for a minute"
        for answer in asked:
            verdict = answer.result().json()["verdict"]
            assert (verdict["status"], verdict["correct"]) == ("invalid", False)
            assert verdict["isolation_tier"] == server.events[0]["isolation"]
            assert "was shut down" in verdict["error_message"]
        assert (old_way.result().status_code, old_way.result().json()["error"]["type"]) == (503, "invalid")


@pytest.mark.slow
@pytest.mark.long
def test_a_token_from_the_environment_is_asked_for_on_every_address():
    token = "0123456789abcdef"
    with ServerProcess("--slots", "1", "--host", "0.0.0.0", WARPSMITH_EVALUATOR_TOKEN=f"{token}\n") as server:
        url = f"http://127.0.0.1:{server.port}"
        assert httpx.get(f"{url}/gpu_status").status_code == 401
        assert httpx.get(f"{url}/gpu_status", headers={"Authorization": f"Bearer {token}"}).status_code == 200
        assert token not in json.dumps(server.events)


@pytest.mark.slow
def test_slow_and_broken_clients_do_not_hold_up_others(server):
    sockets = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(50)]
    for number, half_open in enumerate(sockets):
        half_open.sendall(b"POST /v1/evaluate HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"[: 10 + number])
    reader = threading.Thread(target=lambda: httpx.get(f"{server.url}/health"))
    reader.start()
    assert evaluate(server, ADD_CANDIDATE, trials=1).json()["verdict"]["correct"]
    reader.join()
    for half_open in sockets:
        half_open.close()
    until(lambda: load(server) == (0, 0))


def test_a_log_that_nobody_asks_for_holds_the_server_up_no_more_than_one_that_is_read(server):
    with httpx.Client(base_url=server.url) as client:
        for _ in range(600):  # of 150 bytes and more a line: beyond the 64 KiB that a pipe holds
            assert client.get("/health", timeout=10).status_code == 200
