# ruff: noqa: F821  (the functions that run in a worker use modules that its process has imported)
"""Workers in cgroups of their own: limits, kills, removal, leftovers, and delegated subtrees."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from warpsmith.evaluator import _native

MIB = 1 << 20
PROGRAMS = {"exec_paths": ["/usr/bin/true"]}
SMALL = {"memory_bytes": 32 * MIB, "scratch_bytes": 4 * MIB, "output_bytes": 4096}


@pytest.fixture(params=["namespaces", "landlock", "none"])
def in_cgroup(cgroup_runner, tier, request):
    """Runs functions in workers with a cgroup, at each tier that this machine gives."""
    order = ("none", "landlock", "namespaces")
    if order.index(request.param) > order.index(tier):
        pytest.skip(f"this machine gives only the tier {tier}")
    binds = {"binds": []} if request.param == "landlock" else {}

    def run(function, *arguments, **policy):
        chosen = {"strongest_tier": request.param, "minimum_tier": request.param} | binds | policy
        return cgroup_runner(function, *arguments, **chosen)

    return run


COME_AND_GO = """
    from warpsmith.evaluator import _native
    for _ in range(60):
        _native.Cgroups.open().close()
"""


def test_one_may_come_while_the_last_of_others_goes():
    # First in this file: whoever holds a cgroup keeps the directory that the last one takes away.
    try:
        _native.Cgroups.open().close()
    except _native.NativeError as error:
        pytest.skip(f"this machine gives no cgroups: {error}")
    command = [sys.executable, "-c", textwrap.dedent(COME_AND_GO)]
    several = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate(timeout=60)[1] for process in several] == ["", "", ""]


def return_one() -> int:
    return 1


def stay() -> None:
    say("here")
    signal.pause()


def test_a_worker_begins_in_a_cgroup_with_the_policys_limits(in_cgroup):
    # A cgroup does not list a process that has ended: this one stays until the list was read.
    report = in_cgroup(stay, processes=17, kill_when_said=True, **SMALL)
    assert report.said == ["here"]
    controls = report.cgroup["controls"]
    assert controls["is its own"]
    if "memory.max" in controls:
        assert int(controls["memory.max"]) > SMALL["memory_bytes"] + SMALL["scratch_bytes"]
        assert controls["memory.oom.group"] == "1"
        assert controls.get("memory.swap.max", "0") == "0"
    if "pids.max" in controls:
        assert controls["pids.max"] == "17"
    assert {"memory.max", "pids.max"} & controls.keys()


def test_a_harmless_worker_counts_nothing_and_leaves_nothing(in_cgroup):
    report = in_cgroup(return_one)
    assert report.cgroup["events"] == [0, 0]
    assert [name for name in report.cgroup["left"] if name.startswith("worker-")] == []


def fill_children(each: int) -> None:
    for _ in range(200):
        if os.fork() == 0:
            held = bytearray(each)
            say(len(held))
            signal.pause()
    signal.pause()


def needs(report, name: str) -> None:
    if name not in report.cgroup["controls"]:
        pytest.skip(f"this machine gives no {name}")


def test_processes_together_cannot_take_more_than_the_limit(in_cgroup):
    report = in_cgroup(fill_children, 24 * MIB, **PROGRAMS, **SMALL)
    needs(report, "memory.max")
    assert report.exit == [None, 9]
    assert report.alive_after == []
    reached, killed = report.cgroup["events"]
    assert reached >= 1
    assert killed >= 2, "one kill takes the whole worker"


def fill_shared_memory() -> None:
    fd = os.memfd_create("x")
    for _ in range(4096):
        os.write(fd, bytes(1 << 20))
    say("had all of it")


def test_shared_memory_is_bounded_too(in_cgroup):
    report = in_cgroup(fill_shared_memory, shared_memory=True, file_bytes=8 << 30, **SMALL)
    needs(report, "memory.max")
    assert report.said == []
    assert report.exit == [None, 9]
    assert report.cgroup["events"][0] >= 1


def fork_until_refused() -> int:
    children = 0
    while children < 300:
        try:
            if os.fork() == 0:
                signal.pause()
        except OSError:
            break
        children += 1
    say(children)
    signal.pause()


def test_processes_are_counted_for_the_worker_alone(in_cgroup):
    report = in_cgroup(fork_until_refused, processes=20, kill_when_said=True, **PROGRAMS)
    needs(report, "pids.max")
    assert report.said == [19]
    assert report.alive_after == []


def exit_leaving_a_session() -> None:
    started, starting = os.pipe()
    if os.fork() == 0:
        os.setsid()
        os.write(starting, b"x")
        signal.pause()
    os.read(started, 1)
    os._exit(0)


def test_what_left_the_process_group_dies_with_the_cgroup(cgroup_runner):
    # Without containment a child may leave the group by which a worker is killed; it cannot leave the cgroup.
    report = cgroup_runner(exit_leaving_a_session, patience_s=2, strongest_tier="none", minimum_tier="none")
    assert [name for name in report.cgroup["left"] if name.startswith("worker-")] == []


def run_script(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(script), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


OPEN_AND_DIE = """
    import os, signal
    from warpsmith.evaluator import _native
    cgroups = _native.Cgroups.open()
    ours, theirs = _native.Channel.pair()
    worker = _native.spawn(_native.Policy(minimum_tier="none", strongest_tier="none"), theirs, cgroups)
    if isinstance(worker, _native.InChild):
        signal.pause()
    print(cgroups.path, worker.cgroup, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
OPEN = """
    from warpsmith.evaluator import _native
    cgroups = _native.Cgroups.open()
    print(cgroups.path)
    cgroups.close()
    cgroups.close()
"""


def test_leftovers_of_the_dead_are_swept_and_those_of_the_living_are_not(cgroup_runner):
    living = cgroup_runner(return_one, strongest_tier="none", minimum_tier="none")
    assert living.result == 1
    died = run_script(OPEN_AND_DIE)
    path, _ = died.stdout.split()
    assert os.path.isdir(path), died.stderr
    later = run_script(OPEN)
    assert later.returncode == 0, later.stderr
    assert not os.path.exists(path)
    assert not os.path.exists(later.stdout.strip())
    assert cgroup_runner(return_one, strongest_tier="none", minimum_tier="none").result == 1


FAIL_TO_SPAWN = """
    import os
    from warpsmith.evaluator import _native
    cgroups = _native.Cgroups.open()
    ours, theirs = _native.Channel.pair()
    try:
        _native.spawn(_native.Policy(binds=[("/no/such", "/x", False)], minimum_tier="landlock"), theirs, cgroups)
    except _native.NativeError:
        print([name for name in os.listdir(cgroups.path) if name.startswith("worker-")])
    cgroups.close()
"""


def test_a_spawn_that_fails_leaves_no_cgroup(cgroup_runner):
    assert run_script(FAIL_TO_SPAWN).stdout.strip() == "[]"


@pytest.fixture
def delegated(cgroup_runner) -> Iterator[Path]:
    """A cgroup that is marked and owned as systemd does for Delegate=yes, for an ordinary user."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    top = next((Path(mount[1]) for mount in mounts if mount[2] == "cgroup2"), None)
    if top is None or (top / "cgroup.type").exists() or os.geteuid() != 0:
        pytest.skip("only the host's root can delegate")
    path = top / "warpsmith-test-delegated"
    path.mkdir()
    for name in ("", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
        os.chown(path / name, 65534, 65534)
    os.setxattr(path, "user.delegate", b"1")
    yield path
    for folder, _, _ in os.walk(path, topdown=False):
        os.rmdir(folder)


IN_DELEGATED = """
    import os, sys
    from pathlib import Path
    from warpsmith.evaluator import _native
    Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    place = {layer.name: layer for layer in _native.probe()}["cgroup-memory"]
    assert place.available, place
    assert Path("/proc/self/cgroup").read_text().strip().endswith("warpsmith-test-delegated"), "the probe moved us"
    for _ in range(2):
        cgroups = _native.Cgroups.open()
        ours, theirs = _native.Channel.pair()
        worker = _native.spawn(_native.Policy(minimum_tier="landlock"), theirs, cgroups)
        if isinstance(worker, _native.InChild):
            os._exit(0)
        assert _native.wait(worker.pidfd, 10) == (0, None)
        cgroups.remove(worker.cgroup)
        own = Path("/proc/self/cgroup").read_text().strip().rsplit("/", 1)[1]
        print(own, Path(cgroups.path).parent, *cgroups.controllers)
        cgroups.close()
"""


def test_an_ordinary_user_divides_what_was_delegated(delegated, tier):
    if tier == "none":
        pytest.skip("this machine has neither namespaces nor Landlock")
    done = run_script(IN_DELEGATED, str(delegated))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"warpsmith-main {delegated} memory pids"] * 2


UNMARKED = """
    import os, sys
    from pathlib import Path
    from warpsmith.evaluator import _native
    Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
    os.removexattr(sys.argv[1], "user.delegate")
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    try:
        _native.Cgroups.open()
    except _native.NativeError as error:
        print(error.layer, error.operation, "systemd-run" in error.remedy)
"""


def test_a_cgroup_that_is_writable_but_was_not_given_is_left_alone(delegated):
    assert run_script(UNMARKED, str(delegated)).stdout.split() == ["cgroup", "delegation", "True"]
    assert sorted(path.name for path in delegated.iterdir() if path.is_dir()) == []


def test_without_a_cgroup_a_worker_has_none(any_runner):
    report = any_runner(return_one, strongest_tier="none", minimum_tier="none")
    assert report.cgroup is None


def test_a_machine_without_cgroups_says_what_is_missing_and_what_to_do():
    try:
        _native.Cgroups.open().close()
    except _native.NativeError as error:
        assert error.layer == "cgroup"
        assert error.remedy
        layers = {layer.name: layer for layer in _native.probe()}
        assert not layers["cgroup-memory"].available
    else:
        pytest.skip("this machine gives cgroups")
