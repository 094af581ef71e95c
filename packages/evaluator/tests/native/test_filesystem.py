# ruff: noqa: F821  (the functions that run in a worker use modules that its process has imported)
"""What a worker can read, write and execute."""

import errno
import sys
from pathlib import Path

import pytest

# Where the interpreter itself lies below one of them, the way to it is there, and nothing beside.
READS = {
    path: errno.ENOENT
    for path in ("/etc/passwd", "/etc/shadow", "/home", "/var", "/sys", "/.host")
    if not any(place.startswith(f"{path}/") for place in (sys.prefix, sys.base_prefix))
}


def open_each(paths: list) -> dict:
    outcomes = {}
    for path in paths:
        try:
            os.close(os.open(path, os.O_RDONLY))
            outcomes[path] = 0
        except OSError as error:
            outcomes[path] = error.errno
    return outcomes


def test_what_is_not_bound_is_not_there(contained):
    outcomes = contained.result_of(open_each, list(READS))
    assert outcomes == READS


def in_initial_user_namespace() -> bool:
    return Path("/proc/self/uid_map").read_text().split() == ["0", "0", str(2**32 - 1)]


@pytest.mark.skipif(not in_initial_user_namespace(), reason="there the worker owns what its own root owns")
def test_a_worker_cannot_open_its_own_memory_as_a_file(contained_with_proc):
    paths = ["/proc/self/mem", "/proc/1/mem", "/proc/self/environ"]
    assert contained_with_proc.result_of(open_each, paths) == dict.fromkeys(paths, errno.EACCES)


def list_up_the_tree(prefix: str) -> list:
    names = []
    while prefix != "/":
        prefix = os.path.dirname(prefix)
        names.append(sorted(os.listdir(prefix)))
    return names


def test_the_way_to_a_bind_shows_nothing_beside_it(contained):
    for names in contained.result_of(list_up_the_tree, sys.prefix)[:-1]:
        assert len(names) == 1


def write_each(paths: list) -> dict:
    outcomes = {}
    for path in paths:
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
            outcomes[path] = 0
        except OSError as error:
            outcomes[path] = error.errno
    return outcomes


def test_nothing_is_writable_but_the_scratch(contained):
    refused = ["/usr/x", "/usr/lib/x", "/x", "/dev/x", "/proc/x", f"{sys.prefix}/x", f"{sys.prefix}/pyvenv.cfg"]
    outcomes = contained.result_of(write_each, [*refused, "/tmp/x", "/dev/shm/x"])
    assert outcomes.pop("/tmp/x") == 0
    assert outcomes.pop("/dev/shm/x") == 0
    assert set(outcomes.values()) <= {errno.EACCES, errno.EROFS, errno.EPERM, errno.ENOENT}


def fill_by_bytes() -> list:
    block, written = b"x" * 65536, 0
    try:
        for place in ("/tmp/a", "/dev/shm/b"):
            with open(place, "wb", buffering=0) as file:
                while True:
                    written += file.write(block)
    except OSError as error:
        return [error.errno, written]
    return [0, written]


def test_the_scratch_is_bounded_in_bytes(contained):
    limit = 1 << 20
    error, written = contained.result_of(fill_by_bytes, scratch_bytes=limit)
    assert error == errno.ENOSPC
    assert limit // 2 <= written <= limit


def fill_by_inodes() -> list:
    for count in range(100_000):
        try:
            os.close(os.open(f"/tmp/{count}" if count % 2 else f"/dev/shm/{count}", os.O_WRONLY | os.O_CREAT))
        except OSError as error:
            return [error.errno, count]
    return [0, 100_000]


def test_the_scratch_is_bounded_in_inodes(contained):
    error, count = contained.result_of(fill_by_inodes, scratch_inodes=200)
    assert error == errno.ENOSPC
    assert 100 < count < 200


def write_one_large_file() -> list:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with open("/tmp/large", "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError as error:
            return [error.errno, os.stat("/tmp/large").st_size]


def test_one_file_is_bounded(contained):
    assert contained.result_of(write_one_large_file, file_bytes=100_000) == [errno.EFBIG, 100_000]


def execute_each(programs: list) -> dict:
    outcomes = {}
    for program in programs:
        try:
            outcomes[program[0]] = subprocess.run(program, capture_output=True).returncode
        except OSError as error:
            outcomes[program[0]] = -error.errno
    return outcomes


def test_only_the_named_programs_run(contained):
    programs = [["/usr/bin/true"], ["/usr/bin/ls"], ["/bin/sh", "-c", "exit 0"], [sys.executable, "-c", "pass"]]
    outcomes = contained.result_of(execute_each, programs, exec_paths=["/usr/bin/true"])
    assert outcomes.pop("/usr/bin/true") == 0
    assert set(outcomes.values()) == {-errno.EACCES}


def execute_own_program() -> int:
    with open("/usr/bin/true", "rb") as program, open("/tmp/own", "wb") as copy:
        copy.write(program.read())
    os.chmod("/tmp/own", 0o700)
    try:
        return subprocess.run(["/tmp/own"]).returncode
    except OSError as error:
        return -error.errno


@pytest.mark.parametrize("executable", [False, True])
def test_a_program_of_the_workers_own_making_does_not_run(contained, executable):
    refused = contained.result_of(execute_own_program, exec_paths=["/usr/bin/true"], scratch_executable=executable)
    assert refused == -errno.EACCES


def map_code_from_scratch() -> int:
    with open("/tmp/code", "wb") as file:
        file.write(b"\xc3" * 4096)
    with open("/tmp/code", "rb") as file:
        try:
            mmap.mmap(file.fileno(), 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)
        except OSError as error:
            return error.errno
    return 0


def test_code_is_mapped_from_the_scratch_only_if_the_policy_says_so(contained):
    assert contained.result_of(map_code_from_scratch) == errno.EPERM
    assert contained.result_of(map_code_from_scratch, scratch_executable=True) == 0


def follow_links_out() -> list:
    outcomes = []
    for number, target in enumerate(
        ["/etc/passwd", "../../etc/passwd", "/proc/1/root/etc/passwd", "/.host/etc/passwd"]
    ):
        os.symlink(target, f"/tmp/link{number}")
        try:
            os.close(os.open(f"/tmp/link{number}", os.O_RDONLY))
            outcomes.append(0)
        except OSError as error:
            outcomes.append(error.errno)
    return outcomes


def test_links_lead_nowhere(contained):
    assert set(contained.result_of(follow_links_out)) <= {errno.ENOENT, errno.EACCES}


def test_a_writable_bind_is_written_through_and_a_read_only_one_is_not(contained, tmp_path):
    for name in ("open", "shut"):
        (tmp_path / name).mkdir(mode=0o777)
        (tmp_path / name).chmod(0o777)
    binds = [[str(tmp_path / "open"), "/open", True], [str(tmp_path / "shut"), "/shut", False]]
    outcomes = contained.result_of(write_each, ["/open/x", "/shut/x"], binds=binds)
    assert outcomes["/open/x"] == 0
    assert outcomes["/shut/x"] in {errno.EROFS, errno.EACCES}
    assert (tmp_path / "open" / "x").exists()


def test_a_bound_link_is_made_anew(contained, tmp_path):
    (tmp_path / "real").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    outcomes = contained.result_of(open_each, ["/link"], binds=[[str(tmp_path / "link"), "/link", False]])
    assert outcomes == {"/link": errno.ENOENT}


def describe_place() -> list:
    return [os.getcwd(), os.environ.get("TMPDIR"), stat.S_IMODE(os.stat("/tmp").st_mode), os.umask(0)]


def test_a_worker_starts_in_its_scratch(contained):
    assert contained.result_of(describe_place) == ["/tmp", "/tmp", 0o700, 0o077]
