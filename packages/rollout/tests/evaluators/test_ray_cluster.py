"""Evaluators on a cluster of two logical nodes, and a cluster of another version."""

import asyncio
import re
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace

import pytest

from warpsmith.evaluator import EvaluatorConfig
from warpsmith.rollout.cluster.session import ray_session
from warpsmith.rollout.config import RolloutConfig
from warpsmith.rollout.errors import SamplerError
from warpsmith.rollout.evaluators.open import open_evaluator

pytestmark = pytest.mark.slow

EVALUATOR = EvaluatorConfig(ready_workers=1, memory_bytes=1 << 30)
CONFIG = RolloutConfig(evaluation={"type": "ray", "actors": 2, "start_timeout_s": 300})


async def until_running(judge, count):
    async with asyncio.timeout(60):
        while sum(member.running for member in judge.members) < count:
            await asyncio.sleep(0.01)


def slowed(problem):
    """Return a problem whose evaluation takes some seconds, so that one is in progress when its actor ends."""
    text = problem.text.replace("def get_inputs():\n", "def get_inputs():\n    import time; time.sleep(0.5)\n")
    assert text != problem.text
    return replace(problem, text=text).to_problem()


@contextmanager
def cluster_of(*cores):
    """A cluster of logical nodes, each with its own raylet."""
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        nodes = [
            cluster.add_node(num_cpus=count, object_store_memory=96 << 20, include_dashboard=False) for count in cores
        ]
        cluster.wait_for_nodes()
        yield cluster, nodes
    finally:
        cluster.shutdown()


@pytest.mark.long  # two nodes start for it; test_ray_actors.py loses an actor whose work goes to the other one
def test_actors_spread_over_two_nodes_and_the_loss_of_one_node_is_survived(problem):
    async def go(judge, cluster, nodes):
        assert len({member.node for member in judge.members}) == 2
        asked = [
            asyncio.ensure_future(judge.evaluate_async(slowed(problem), f"{problem.solution}\n# {n}", trials=2))
            for n in range(4)
        ]
        await until_running(judge, 4)
        assert [member.running for member in judge.members] == [2, 2]
        await asyncio.to_thread(cluster.remove_node, nodes[1])
        assert [v.status for v in await asyncio.gather(*asked)] == ["correct"] * 4
        assert judge.lost >= 1
        after = asyncio.gather(
            *(judge.evaluate_async(problem.to_problem(), f"{problem.solution}\n# {n}", trials=1) for n in range(4, 8))
        )
        assert [v.status for v in await after] == ["correct"] * 4

    with cluster_of(3, 1) as (cluster, nodes), ray_session(cluster.address), open_evaluator(CONFIG, EVALUATOR) as judge:
        asyncio.run(go(judge, cluster, nodes))


def test_a_cluster_of_another_version_is_named_with_what_to_do():
    with cluster_of(1) as (cluster, _):
        import ray

        gcs = ray._raylet.GcsClient(address=cluster.address)
        entry = (b"CLUSTER_METADATA", b"cluster")
        entry_value = gcs.internal_kv_get(*entry)
        gcs.internal_kv_put(entry[0], entry_value.replace(ray.__version__.encode(), b"1.99.0"), True, entry[1])
        with pytest.raises(SamplerError, match="same versions of Ray and Python"), ray_session(cluster.address):
            pass


@pytest.mark.parametrize("part", ["raylet", pytest.param("gcs_server", marks=pytest.mark.long)])
def test_a_part_of_the_local_instance_that_ends_is_reported_at_once(part):
    """In a process of its own: without its gcs_server Ray ends the process that started it."""
    code = (
        "import sys, threading\nimport psutil\nfrom warpsmith.records import commands\n"
        "from warpsmith.rollout.cluster.session import ray_session\n"
        "with ray_session(num_cpus=1, object_store_bytes=96 << 20, on_lost=commands.end_at_once):\n"
        "    next(p for p in psutil.Process().children() if p.name() == sys.argv[1]).kill()\n"
        "    threading.Event().wait(30)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code, part], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2, ended.stderr
    assert f"error: Ray's {part} has ended" in ended.stderr
    assert re.search(rf"^The last lines of /\S+/logs/{part}\.out:$", ended.stderr, re.MULTILINE), ended.stderr
