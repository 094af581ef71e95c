"""`deploy/cluster`: the examples for three schedulers, run by stand-ins for them on this machine.

A stand-in starts one process tree for each machine with the variables that its scheduler sets; machines are then Ray
nodes of one host. Ranks are a program that joins the process group and writes what it was given.
"""

import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
CLUSTER = ROOT / "deploy/cluster"
NODE = CLUSTER / "node.sh"
RANK = """
import json, os, signal, sys, time
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed as dist

asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
out = Path(os.environ["WRITES"])
dist.init_process_group("gloo", timeout=timedelta(seconds=300))
total = torch.tensor([float(os.environ["RANK"])])
dist.all_reduce(total)
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "RAY_AUTH_TOKEN")
seen = {name: os.environ[name] for name in names}
(out / f"rank-{dist.get_rank()}.json").write_text(json.dumps({**seen, "sum": total.item(), "arguments": sys.argv[1:]}))
waits = os.environ.get("WAITS")
while waits and not asked:
    time.sleep(0.1)
dist.barrier()
sys.exit(int(os.environ.get("CODE_OF_RANK_1", "0")) if dist.get_rank() == 1 else 0)
"""


def own_address():
    """The address of this machine that Ray takes: it replaces 127.0.0.1 by it."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        probe.connect(("192.0.2.1", 9))
        return probe.getsockname()[0]


HEAD = own_address()


def free_port():
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture
def settings(tmp_path):
    """The environment of every machine, before a scheduler's own variables."""
    (tmp_path / "rank_of_a_test.py").write_text(RANK)
    (tmp_path / "run.toml").write_text("# The rank of a test does not read it.\n")
    (tmp_path / "bin").mkdir()
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "SLURM_", "CUDA_VISIBLE"))
    }
    return {
        **kept, "PYTHONPATH": str(tmp_path), "RANK_MODULE": "rank_of_a_test", "WRITES": str(tmp_path),
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "PYTHON": sys.executable, "RANKS": "2", "START_S": "300",
        "MASTER_PORT": str(free_port()), "RAY_PORT": str(free_port()), "RAY_prestart_worker_first_driver": "0",
        "RAY_OPTIONS": "--num-cpus=1 --object-store-memory=80000000",
    }  # fmt: skip


def program(path, text):
    path.write_text(f"#!{sys.executable}\n" + textwrap.dedent(text))
    path.chmod(0o755)


def ranks(folder):
    return [json.loads(path.read_text()) for path in sorted(folder.glob("rank-*.json"))]


def started(machines, folder):
    """Start a machine for each environment and command; its output goes to machine-N.log."""
    return [
        subprocess.Popen(
            command, env=own, cwd=ROOT, stdout=(folder / f"machine-{number}.log").open("w"), stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        for number, (command, own) in enumerate(machines)
    ]  # fmt: skip


def ended(processes, folder, seconds=400):
    """Return the exit codes of all machines; end what is left, and fail with the logs, if one does not end."""
    deadline = time.monotonic() + seconds
    try:
        return [process.wait(max(0.1, deadline - time.monotonic())) for process in processes]
    except subprocess.TimeoutExpired:
        logs = "\n".join(path.read_text() for path in sorted(folder.glob("machine-*.log")))
        pytest.fail(f"A machine did not end in {seconds} s:\n{logs[-4000:]}")
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def check(seen, settings, *, world):
    """Check that every rank was numbered once, met the others at the head, and knows where Ray is."""
    assert [int(one["RANK"]) for one in seen] == list(range(world))
    assert {one["WORLD_SIZE"] for one in seen} == {str(world)}
    assert [one["LOCAL_RANK"] for one in seen] == ["0", "1"] * (world // 2)
    assert {one["sum"] for one in seen} == {sum(range(world))}
    assert {one["MASTER_ADDR"] for one in seen} == {HEAD}
    for one in seen:
        assert one["arguments"][0] == "grpo"
        assert one["arguments"][-1] == f"run.ray_address={HEAD}:{settings['RAY_PORT']}"


@pytest.mark.long
def test_slurm_starts_ranks_on_two_of_three_machines(tmp_path, settings):
    batch = (CLUSTER / "slurm.sbatch").read_text()
    directives = dict(re.findall(r"^#SBATCH --([\w-]+)=(\S+)", batch, re.MULTILINE))
    program(tmp_path / "bin/scontrol", f"""
        import sys
        assert sys.argv[1:3] == ["show", "hostnames"], sys.argv
        print("\\n".join(["{HEAD}"] * len(sys.argv[3].split(","))))
    """)  # fmt: skip
    program(tmp_path / "bin/srun", """
        import os, subprocess, sys
        first = next(place for place, part in enumerate(sys.argv) if place and not part.startswith("--"))
        command = sys.argv[first:]
        nodes = int(os.environ["SLURM_JOB_NUM_NODES"])
        tasks = [subprocess.Popen(command, env={**os.environ, "SLURM_NODEID": str(node)}) for node in range(nodes)]
        sys.exit(max(task.wait() for task in tasks))
    """)  # fmt: skip
    job = 4242
    slurm = {
        "SLURM_JOB_ID": str(job), "SLURM_JOB_NUM_NODES": directives["nodes"],
        "SLURM_JOB_NODELIST": ",".join(f"n{number}" for number in range(int(directives["nodes"]))),
    }  # fmt: skip
    # The script sets the interpreter and the ports; here they are the test's.
    adapted = tmp_path / "slurm.sbatch"
    own = f"PYTHON={sys.executable}", f"RAY_PORT={settings['RAY_PORT']} MASTER_PORT={settings['MASTER_PORT']}"
    text = batch.replace("PYTHON=$PWD/.venv/bin/python", own[0])
    adapted.write_text(re.sub(r"RAY_PORT=\$\(\( .* \)\) MASTER_PORT=\$\(\( .* \)\)", own[1], text))
    machines = [(["bash", str(adapted), str(tmp_path / "run.toml"), "--resume"], {**settings, **slurm})]
    assert ended(started(machines, tmp_path), tmp_path) == [0]
    seen = ranks(tmp_path)
    check(seen, settings, world=4)
    assert all(one["arguments"][1:3] == [str(tmp_path / "run.toml"), "--resume"] for one in seen)
    assert len({one["RAY_AUTH_TOKEN"] for one in seen}) == 1
    assert len(seen[0]["RAY_AUTH_TOKEN"]) == 64


@pytest.mark.long
def test_skypilot_passes_on_the_failure_of_a_rank(tmp_path, settings):
    task = yaml.safe_load((CLUSTER / "skypilot.yaml").read_text())
    assert task["secrets"] == {"RAY_AUTH_TOKEN": None}
    nodes = task["num_nodes"]
    envs = {name: str(value) for name, value in task["envs"].items()}
    given = {"CONFIG": str(tmp_path / "run.toml"), "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    sky = {"SKYPILOT_NUM_NODES": str(nodes), "SKYPILOT_NODE_IPS": "\n".join([HEAD] * nodes)}
    command = ["bash", "-c", task["run"].replace("PYTHON=$PWD/.venv/bin/python", f"PYTHON={sys.executable}")]
    machines = [
        (command, {**envs, **settings, **given, **sky, "SKYPILOT_NODE_RANK": str(node), "CODE_OF_RANK_1": "3"})
        for node in range(nodes)
    ]
    assert ended(started(machines, tmp_path), tmp_path) == [3, 0]
    check(ranks(tmp_path), settings, world=2)


@pytest.mark.long
def test_kubernetes_ends_after_a_request_to_stop_with_the_step_done(tmp_path, settings):
    service, job = yaml.safe_load_all((CLUSTER / "kubernetes.yaml").read_text())
    pod, name = job["spec"]["template"]["spec"], job["metadata"]["name"]
    (container,) = pod["containers"]
    assert job["spec"]["completionMode"] == "Indexed"
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == 2
    # A pod of an indexed Job is <job>-<index>, and below its subdomain if a headless service has that name.
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"job-name": name}
    variables = {one["name"]: one.get("value", secrets.token_hex(32)) for one in container["env"]}
    assert variables["HEAD"] == f"{name}-0.{pod['subdomain']}"
    assert pod["subdomain"] == service["metadata"]["name"]
    assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}
    assert "command" not in container
    program_, *arguments = container["args"]
    command = [str(ROOT / program_), *(part.replace("/config", str(tmp_path)) for part in arguments)]
    pods = [
        (command, {**settings, **variables, "HEAD": HEAD, "JOB_COMPLETION_INDEX": str(index), "WAITS": "1"})
        for index in range(2)
    ]
    processes = started(pods, tmp_path)
    deadline = time.monotonic() + 300
    while len(ranks_that_wait := ranks(tmp_path)) < 2 and time.monotonic() < deadline:
        time.sleep(0.5)
    assert len(ranks_that_wait) == 2, (tmp_path / "machine-0.log").read_text()[-3000:]
    for process in processes:
        process.send_signal(signal.SIGTERM)
    assert ended(processes, tmp_path) == [0, 0]
    check(ranks_that_wait, settings, world=2)


def one_machine(folder, environment):
    """Run a machine to its end."""
    command = [NODE, folder / "run.toml"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"NODE": ""}, "must number this machine"),
        ({"NODE": "2"}, "must number this machine"),
        ({"HEAD": ""}, "HEAD must be the address"),
        ({"TRAIN_NODES": "3"}, "must be 1 to 2"),
        ({"RAY_AUTH_TOKEN": ""}, "one secret on all machines"),
        ({"RANKS": "some"}, "RANKS='some'"),
        ({"RANKS": "0"}, "at least 1"),
        ({"HEAD": "no-such-name.invalid", "START_S": "0"}, "has no IPv4 address"),
        ({"RANKS": "3", "CUDA_VISIBLE_DEVICES": "0,1"}, "shows 2 GPUs"),
        ({"NODE": "1", "START_S": "1"}, "nothing answered at 127.0.0.1"),
    ],
)
def test_a_machine_that_cannot_take_part_says_why(tmp_path, settings, changes, said):
    own = {"NODE": "0", "NODES": "2", "HEAD": "127.0.0.1", "RAY_AUTH_TOKEN": "a" * 64}
    found = one_machine(tmp_path, {**settings, **own, **changes})
    assert found.returncode == 2
    assert said in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1


# Ray, what waits for it, and a rank, which must not be started.
STAND_IN = """
import os, signal, sys, time
from pathlib import Path

out, asks = Path(os.environ["WRITES"]), sys.argv[1] == "-"
if not asks and "ray.scripts.scripts" not in sys.argv:
    (out / "rank").touch()
elif asks:
    (out / "waits").touch()
    if os.environ.get("ASKED_AT_THE_END"):
        os.kill(os.getppid(), signal.SIGTERM)
        sys.exit(0)
time.sleep(50)
sys.exit(1)
"""


@pytest.mark.parametrize("moment", ["unresolved", "while it waits", "at the end of the wait"])
def test_a_machine_that_is_asked_to_stop_before_its_ranks_start_starts_none(tmp_path, settings, moment):
    program(tmp_path / "bin/stand-in", STAND_IN)
    own = {
        "NODE": "0", "NODES": "1", "HEAD": "no-such-name.invalid" if moment == "unresolved" else "127.0.0.1",
        "RAY_AUTH_TOKEN": "a" * 64, "PYTHON": "stand-in", "ASKED_AT_THE_END": "1" if moment.startswith("at") else "",
    }  # fmt: skip
    (machine,) = started([([str(NODE), str(tmp_path / "run.toml")], {**settings, **own})], tmp_path)
    log = tmp_path / "machine-0.log"
    deadline = time.monotonic() + 40
    while not ((tmp_path / "waits").exists() or (moment == "unresolved" and "machine 0 is" in log.read_text())):
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    if not own["ASKED_AT_THE_END"]:
        machine.send_signal(signal.SIGTERM)
    assert ended([machine], tmp_path, 40) == [143], log.read_text()
    assert not (tmp_path / "rank").exists()


def test_a_taken_port_is_not_another_runs_ray(tmp_path, settings):
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = str(other.getsockname()[1])
        own = {"NODE": "0", "NODES": "1", "HEAD": "127.0.0.1", "RAY_AUTH_TOKEN": "a" * 64, "RAY_PORT": port}
        found = one_machine(tmp_path, {**settings, **own})
    assert found.returncode == 2
    assert f"port {port} of 127.0.0.1 is taken" in found.stderr


def test_the_training_image_copies_what_is_there_and_what_install_needs():
    text = (ROOT / "deploy/training/Containerfile").read_text()
    copied = {source for line in re.findall(r"^COPY (.+)$", text, re.MULTILINE) for source in line.split()[:-1]}
    assert all((ROOT / source).exists() for source in copied)
    inputs = {path.relative_to(ROOT).parts[0] for path in [ROOT / "tools/install.py", ROOT / "requirements/cuda.lock"]}
    assert {"csrc", "packages", "CMakeLists.txt", "Makefile", "pyproject.toml", *inputs} <= copied
