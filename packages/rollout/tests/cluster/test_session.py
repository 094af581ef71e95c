"""A local instance of Ray starts no worker before one is asked for."""

import time

import psutil
import pytest

from warpsmith.rollout.cluster.session import ray_session

pytestmark = pytest.mark.slow


def test_a_local_instance_starts_no_idle_workers():
    with ray_session(num_cpus=12, object_store_bytes=96 << 20):
        time.sleep(1.0)
        names = [" ".join(child.cmdline()) for child in psutil.Process().children(recursive=True)]
    raylets = [name for name in names if "raylet/raylet" in name]
    assert raylets
    # The raylet's own command line says how to start a worker.
    workers = [name for name in names if name.startswith("ray::IDLE") or "default_worker.py" in name]
    assert [name for name in workers if name not in raylets] == []
