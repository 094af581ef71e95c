"""What cannot be contained as asked does not start: each failed layer is named, and no child is left."""

import errno
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from warpsmith.evaluator import _native
from warpsmith.records.errors import WarpsmithError


def return_one() -> int:
    return 1


def test_a_missing_source_is_named(contained):
    failure = contained(return_one, binds=[["/no/such/path", "/x", False]]).failure
    assert failure["layer"] == "root filesystem"
    assert failure["errno"] == errno.ENOENT
    assert "/no/such/path" in failure["operation"]
    assert "bind" in failure["text"]


def test_a_target_that_cannot_be_made_is_named(contained):
    failure = contained(return_one, binds=[["/usr", "/usr", False], ["/bin", "/usr/no/such", False]]).failure
    assert failure["layer"] == "root filesystem"
    assert failure["errno"] == errno.EROFS


def test_a_missing_program_is_named(contained):
    failure = contained(return_one, exec_paths=["/usr/bin/no-such-program"]).failure
    assert failure["layer"] == "landlock"
    assert "no-such-program" in failure["text"]


def test_a_scratch_too_small_for_its_directories_fails(contained):
    failure = contained(return_one, scratch_inodes=1).failure
    assert failure["layer"] == "root filesystem"
    assert failure["errno"] == errno.ENOSPC


def test_after_a_failure_the_next_worker_starts(contained):
    assert contained(return_one, binds=[["/no/such/path", "/x", False]]).failure
    assert contained.result_of(return_one) == 1


RESTRICTED = """
    import os, sys
    from warpsmith.evaluator import _native
    {restriction}
    ours, theirs = _native.Channel.pair()
    policy = _native.Policy(minimum_tier={minimum!r})
    before = len(os.listdir("/proc/self/fd"))
    try:
        worker = _native.spawn(policy, theirs)
    except _native.NativeError as error:
        assert len(os.listdir("/proc/self/fd")) == before
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            print("failed", error.layer, error.errno, str(error))
        sys.exit(0)
    if isinstance(worker, _native.InChild):
        os._exit(0)
    print("started", worker.tier, _native.wait(worker.pidfd, 10))
"""

# Takes clone3 away, as the default profiles of container engines do.
NO_CLONE3 = """
    import ctypes, struct
    code = struct.pack("HBBI", 0x20, 0, 0, 0) + struct.pack("HBBI", 0x15, 0, 1, 435)
    code += struct.pack("HBBI", 0x06, 0, 0, 0x00050000 | {error}) + struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)
    text = ctypes.create_string_buffer(code)
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(text)))
    library = ctypes.CDLL(None, use_errno=True)
    assert library.prctl(38, 1, 0, 0, 0) == 0
    assert library.syscall(317, 1, 0, program) == 0, ctypes.get_errno()
"""


def run_restricted(restriction: str, minimum: str) -> str:
    script = textwrap.dedent(RESTRICTED).format(restriction=textwrap.dedent(restriction).strip(), minimum=minimum)
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS])
def test_without_namespaces_the_tier_namespaces_is_refused_with_the_way_to_get_it(error):
    said = run_restricted(NO_CLONE3.format(error=error), "namespaces")
    assert said.startswith(f"failed namespaces {error} ")
    for word in ("user.max_user_namespaces", "seccomp=unconfined", "docs/sandbox.md"):
        assert word in said


def test_without_namespaces_a_lower_minimum_is_met_and_said(tier):
    if tier == "none":
        pytest.skip("this machine has no Landlock")
    said = run_restricted(NO_CLONE3.format(error=errno.EPERM), "landlock")
    assert said.startswith("started landlock Exit(code=0, signal=None)")


def test_a_process_with_threads_is_refused():
    said = run_restricted(
        "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()", "none"
    )
    assert said.startswith(f"failed spawn {errno.EDEADLK} ")


def test_a_channel_that_is_not_open_is_refused(contained):
    done = run_restricted("_native.Channel.pair = staticmethod(lambda: (None, 77))", "namespaces")
    assert done.startswith(f"failed spawn {errno.EBADF} ")


def test_the_tier_none_is_given_only_when_it_is_asked_for(any_runner):
    report = any_runner(return_one, minimum_tier="none", strongest_tier="none")
    assert report.tier == "none"
    assert report.result == 1


BAD_POLICIES = [
    ({"binds": [("relative", "/x", False)]}, "binds"),
    ({"binds": [("/x", "/a/../b", False)]}, "binds"),
    ({"binds": [("/x", "/", False)]}, "binds"),
    ({"binds": [("/x", "/tmp", False)]}, "binds"),
    ({"binds": [("/x", "/y", False), ("/z", "/y", False)]}, "binds"),
    ({"exec_paths": ["ptxas"]}, "exec_paths"),
    ({"environment": {"A=B": "c"}}, "environment"),
    ({"environment": {"A": "b\0c"}}, "environment"),
    ({"scratch_path": "here"}, "scratch_path"),
    ({"scratch_bytes": 0}, "scratch_bytes"),
    ({"memory_bytes": 0}, "memory_bytes"),
    ({"processes": 0}, "processes"),
    ({"open_files": 3}, "open_files"),
    ({"output_bytes": 0}, "output_bytes"),
    ({"minimum_tier": "strong"}, "tier"),
    ({"minimum_tier": "namespaces", "strongest_tier": "landlock"}, "strongest_tier"),
]


@pytest.mark.parametrize(("fields", "field"), BAD_POLICIES)
def test_a_policy_that_makes_no_sense_is_refused(fields, field):
    with pytest.raises(_native.NativeError) as caught:
        _native.Policy(**fields)
    assert caught.value.layer == "policy"
    assert caught.value.operation == field
    assert isinstance(caught.value, WarpsmithError)


def test_a_policy_shows_what_it_was_given():
    policy = _native.Policy(
        binds=[_native.Bind("/a", "/b"), ("/c", "/d", True)], exec_paths=["/e"], environment={"F": "g"}, processes=7
    )
    assert policy.binds == [_native.Bind("/a", "/b", False), _native.Bind("/c", "/d", True)]
    assert policy.exec_paths == ["/e"]
    assert policy.environment == {"F": "g"}
    assert policy.processes == 7
    assert (policy.strongest_tier, policy.minimum_tier) == ("namespaces", "namespaces")


LAYERS = {
    *(f"{name} namespace" for name in ("user", "pid", "mount", "net", "ipc", "uts", "cgroup")),
    *("pivot_root", "landlock", "seccomp", "no_new_privs", "memfd seals", "pidfd", "close_range"),
    *("cgroup-memory", "cgroup-pids"),
}


def test_the_probe_names_every_layer_and_what_to_do_about_those_that_lack():
    layers = {layer.name: layer for layer in _native.probe()}
    assert set(layers) == LAYERS
    assert all(layer.detail for layer in layers.values())
    assert all(layer.available or layer.remedy for layer in layers.values())


def test_the_probe_works_in_a_process_with_threads_and_under_a_container_filter():
    # The C library starts threads by clone where clone3 is answered so.
    script = textwrap.dedent(NO_CLONE3).format(error=errno.ENOSYS) + textwrap.dedent("""
        import threading
        from warpsmith.evaluator import _native
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        layers = {layer.name: layer for layer in _native.probe()}
        assert not layers["user namespace"].available
        assert not layers["pivot_root"].available
        assert "user.max_user_namespaces" in layers["user namespace"].remedy
        print(_native.achievable_tier())
    """)
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in {"landlock", "none"}


def open_things() -> tuple[int, str]:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return len(os.listdir("/proc/self/fd")), children


def test_a_probe_leaves_nothing_behind():
    before = open_things()
    _native.probe()
    assert open_things() == before


# As an ordinary user of a machine whose administrator has switched user namespaces off.
NO_USER_NAMESPACES = """
    import ctypes, os
    from pathlib import Path
    uid, gid = os.getuid(), os.getgid()
    assert ctypes.CDLL(None, use_errno=True).unshare(0x10000000) == 0, ctypes.get_errno()
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    Path("/proc/sys/user/max_user_namespaces").write_text("0")
    from warpsmith.evaluator import _native
    layers = {layer.name: layer for layer in _native.probe()}
    assert not layers["user namespace"].available
    print(layers["user namespace"].remedy)
"""


def test_the_probe_names_the_switch_that_is_off(tier):
    if tier != "namespaces":
        pytest.skip(f"this machine gives only the tier {tier}")
    command = [sys.executable, "-c", textwrap.dedent(NO_USER_NAMESPACES)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("sysctl user.max_user_namespaces is 0 here")


def test_the_probe_says_that_a_filter_is_in_force():
    script = textwrap.dedent(NO_CLONE3).format(error=errno.EPERM) + textwrap.dedent("""
        from warpsmith.evaluator import _native
        print({layer.name: layer for layer in _native.probe()}["user namespace"].remedy)
    """)
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=60)
    assert "A seccomp filter is in force here" in done.stdout
