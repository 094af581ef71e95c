# ruff: noqa: F821  (the functions that run in a worker use modules that its process has imported)
"""What of its maker and of the machine a worker can see."""


def list_descriptors() -> list:
    open_now = []
    for number in range(1024):
        try:
            open_now.append([number, stat.S_IFMT(os.fstat(number).st_mode)])
        except OSError:
            continue
    return open_now


def test_nothing_is_inherited_but_the_streams_and_the_channel(contained):
    import stat

    kinds = [kind for _, kind in contained.result_of(list_descriptors)]
    assert kinds == [stat.S_IFCHR, stat.S_IFREG, stat.S_IFREG, stat.S_IFSOCK]


def show_environment() -> list:
    library = ctypes.CDLL(None)
    library.getenv.restype = ctypes.c_char_p
    return [dict(os.environ), library.getenv(b"CANARY"), library.getenv(b"GIVEN").decode()]


def test_the_environment_is_the_policys(contained):
    variables, canary, given = contained.result_of(show_environment, environment={"GIVEN": "yes"})
    assert variables == {"GIVEN": "yes", "TMPDIR": "/tmp"}
    assert canary is None
    assert given == "yes"


def search_initial_stack() -> bool:
    with open("/proc/self/maps") as file:
        maps = file.read().splitlines()
    low, high = next([int(end, 16) for end in line.split()[0].split("-")] for line in maps if line.endswith("[stack]"))
    needle = b"warpsmith-secret-" + b"of-the-first-environment"
    return needle in ctypes.string_at(low, high - low)


def test_the_first_environment_is_gone_from_memory(contained_with_proc, make_runner):
    runner = make_runner({"SECRET": "warpsmith-secret-of-the-first-environment"})
    assert runner.result_of(search_initial_stack) is False


def list_processes() -> list:
    return [entry for entry in os.listdir("/proc") if entry.isdigit()]


def test_no_other_process_is_seen(contained_with_proc):
    assert contained_with_proc.result_of(list_processes) == ["1"]


def read_interfaces() -> list:
    with open("/proc/net/dev") as file:
        return [line.split(":")[0].strip() for line in file.readlines()[2:]]


def test_the_network_is_a_lone_loopback(contained_with_proc):
    assert contained_with_proc.result_of(read_interfaces) == ["lo"]


def connect_abstract(name: str) -> int:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex("\0" + name)


def test_abstract_sockets_of_the_host_are_out_of_reach(contained):
    import errno
    import os
    import socket

    name = f"warpsmith-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0" + name)
        server.listen()
        assert contained.result_of(connect_abstract, name) == errno.ECONNREFUSED


def show_identity() -> dict:
    fields = {}
    with open("/proc/self/status") as file:
        for line in file:
            name, value = line.rstrip("\n").split(":", 1)
            fields[name] = value.split()
    return {
        "uid": fields["Uid"],
        "groups": fields["Groups"],
        "capabilities": [fields[name][0] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
        "no_new_privs": fields["NoNewPrivs"],
        "seccomp": fields["Seccomp"],
        "hostname": os.uname().nodename,
        "session": [os.getpid(), os.getsid(0), os.getpgrp()],
    }


def test_the_identity_has_nothing_to_give(contained_with_proc):
    identity = contained_with_proc.result_of(show_identity)
    assert identity["uid"] == ["1000"] * 4
    assert identity["groups"] == []
    assert set(identity["capabilities"]) == {"0" * 16}
    assert identity["no_new_privs"] == ["1"]
    assert identity["seccomp"] == ["2"]
    assert identity["hostname"] == "worker"
    assert identity["session"] == [1, 1, 1]


def dispositions() -> list:
    return [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)] + [
        sorted(signal.pthread_sigmask(signal.SIG_BLOCK, []))
    ]


def test_signals_are_as_in_a_new_process(contained):
    assert contained.result_of(dispositions) == [0, 0, []]
