# ruff: noqa: F821  (the functions that run in a worker use modules that its process has imported)
"""Processes, signals, limits and the ends of workers."""

import errno

import pytest

PROGRAMS = {"exec_paths": ["/usr/bin/true"]}


def fork_until_refused() -> int:
    children = 0
    while True:
        try:
            if os.fork() == 0:
                signal.pause()
        except OSError:
            break
        children += 1
    say(children)
    signal.pause()


def test_a_fork_bomb_is_bounded_and_dies_with_the_worker(contained):
    report = contained(fork_until_refused, processes=20, kill_when_said=True, **PROGRAMS)
    assert report.said == [19]
    assert report.exit == [None, 9]
    assert report.alive_after == []


def fork_once() -> int:
    try:
        if os.fork() == 0:
            os._exit(0)
    except OSError as error:
        return error.errno
    return 0


def test_a_worker_of_no_programs_cannot_fork(contained):
    assert contained.result_of(fork_once) == errno.EPERM


def start_threads_until_refused() -> int:
    stop = threading.Event()
    threads = 0
    try:
        while threads < 1000:
            threading.Thread(target=stop.wait, daemon=True).start()
            threads += 1
    except RuntimeError:
        pass
    stop.set()
    return threads


def test_threads_work_and_are_bounded(contained):
    assert contained.result_of(start_threads_until_refused, processes=20) == 19


def hide_in_another_session() -> None:
    started, starting = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            os.write(starting, b"x")
            while True:
                signal.pause()
        os._exit(0)
    os.read(started, 1)
    say("hidden")
    signal.pause()


def test_double_fork_and_setsid_do_not_outlive_the_worker(contained):
    report = contained(hide_in_another_session, kill_when_said=True, **PROGRAMS)
    assert report.exit == [None, 9]
    assert report.alive_after == []
    # The channel is closed only once every process that held it is gone: listening until then found no more.
    assert report.killed


def stop_self() -> None:
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
    os.waitid(os.P_PID, child, os.WSTOPPED)
    say("stopped")
    signal.pause()


def test_stopped_processes_die_too(contained):
    report = contained(stop_self, kill_when_said=True, **PROGRAMS)
    assert report.exit == [None, 9]
    assert report.alive_after == []


def signal_everybody() -> list:
    outcomes = []
    for target in (-1, 0, 2, os.getppid()):
        try:
            os.kill(target, signal.SIGKILL)
            outcomes.append(0)
        except OSError as error:
            outcomes.append(error.errno)
    return outcomes


def test_signals_reach_nobody_outside(contained):
    # As init of its namespace the worker is spared by its own signals; nobody else is there.
    assert contained.result_of(signal_everybody) == [errno.ESRCH, 0, errno.ESRCH, 0]


def abort() -> None:
    say([os.getpid(), threading.get_native_id()])
    os.abort()


def segfault() -> None:
    ctypes.string_at(0)


def divide_by_zero() -> None:
    code = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)
    code.write(b"\x31\xc9\xf7\xf9\xc3")
    ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()


@pytest.mark.parametrize(("fault", "numbers"), [(abort, {6, 11}), (segfault, {11}), (divide_by_zero, {8, 4})])
def test_faults_are_reported_as_signals(contained, fault, numbers):
    report = contained(fault)
    assert report.exit[0] is None
    assert report.exit[1] in numbers
    assert report.result is None


def thread_ids_and_raise() -> list:
    seen = []
    signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number))
    signal.raise_signal(signal.SIGUSR1)
    library = ctypes.CDLL(None)
    library.pthread_self.restype = ctypes.c_void_p
    library.pthread_kill.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.pthread_kill(library.pthread_self(), signal.SIGUSR1)
    return [os.getpid(), threading.get_native_id(), seen]


def test_the_c_library_knows_the_childs_own_thread(contained):
    assert contained.result_of(thread_ids_and_raise) == [1, 1, [10, 10]]


def join_a_thread() -> str:
    said = []
    thread = threading.Thread(target=lambda: said.append("done"))
    thread.start()
    thread.join(10)
    return said[0]


def test_threads_can_be_joined(contained):
    assert contained.result_of(join_a_thread) == "done"


def exit_with_seven() -> None:
    os._exit(7)


def test_an_exit_code_is_reported(contained):
    assert contained(exit_with_seven).exit == [7, None]


def spin() -> None:
    while True:
        pass


def test_a_busy_loop_ends_with_its_cpu_time(contained):
    report = contained(spin, cpu_seconds=1)
    assert report.exit == [None, 9]
    assert not report.killed


def raise_limits() -> dict:
    outcomes = {}
    for name in ("NPROC", "NOFILE", "FSIZE", "CPU", "DATA", "STACK", "MEMLOCK", "CORE"):
        number = getattr(resource, f"RLIMIT_{name}")
        soft, hard = resource.getrlimit(number)
        try:
            resource.setrlimit(number, (soft, hard + 1))
            outcomes[name] = "raised"
        except ValueError:
            outcomes[name] = "refused"
        except OSError as error:
            outcomes[name] = error.errno
    return outcomes


def test_no_limit_can_be_raised(contained):
    assert set(contained.result_of(raise_limits).values()) == {"refused"}


def open_until_refused() -> list:
    count = 0
    try:
        while True:
            os.dup(0)
            count += 1
    except OSError as error:
        return [error.errno, count < 64]


def test_open_files_are_bounded(contained):
    assert contained.result_of(open_until_refused, open_files=64) == [errno.EMFILE, True]


def take_memory(step: int) -> int:
    library = ctypes.CDLL(None)
    library.mmap.restype = ctypes.c_ssize_t
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    total = 0
    while library.mmap(None, step, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0) != -1:
        total += step
        if total > 1 << 40:
            break
    return total


def test_memory_is_bounded_by_what_the_policy_adds(contained):
    limit, step = 256 << 20, 4 << 20
    assert limit - 8 * step <= contained.result_of(take_memory, step, memory_bytes=limit) <= limit


def test_more_can_be_mapped_than_the_policy_adds(contained):
    limit, step = 256 << 20, 4 << 20
    mapped = contained.result_of(take_memory, step, memory_bytes=limit // 4, data_bytes=limit)
    assert limit - 8 * step <= mapped <= limit


def reserve_address_space() -> int:
    library = ctypes.CDLL(None)
    library.mmap.restype = ctypes.c_ssize_t
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    return library.mmap(None, 1 << 40, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, -1, 0)


def test_address_space_alone_is_free(contained):
    assert contained.result_of(reserve_address_space, memory_bytes=64 << 20) != -1


def read_without_end() -> list:
    """Read one byte every 2 MiB of memory that nobody wrote: no data, but a page table of the kernel's for each."""
    library = ctypes.CDLL(None)
    library.mmap.restype = ctypes.c_ssize_t
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    taken = 0
    while taken < 64 << 30:
        address = library.mmap(None, 1 << 30, 1, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, -1, 0)
        if address == -1:
            break
        for offset in range(0, 1 << 30, 2 << 20):
            ctypes.string_at(address + offset, 1)
        taken += 1 << 30
    with open("/proc/self/status") as file:
        tables = next(int(line.split()[1]) for line in file if line.startswith("VmPTE"))
    return [taken >> 30, tables >> 10]


def test_page_tables_are_bounded_with_the_address_space(contained_with_proc):
    gigabytes, megabytes = contained_with_proc.result_of(read_without_end, address_space_bytes=8 << 30)
    assert gigabytes in {7, 8}
    assert megabytes < 32


def print_without_end() -> None:
    try:
        while True:
            os.write(1, b"x" * 1000)
    except OSError as error:
        say(error.errno)


def test_output_is_capped_and_kept(contained):
    report = contained(print_without_end, output_bytes=10_000)
    assert report.said == [errno.EPERM]
    assert report.output == "x" * 10_000


def read_and_print() -> str:
    print("to stdout", flush=True)
    os.write(2, b"to stderr")
    return os.read(0, 10).decode()


def test_standard_streams_are_null_and_the_output(contained):
    report = contained(read_and_print)
    assert report.result == ""
    assert report.output == "to stdout\nto stderr"


def wait_for_ever() -> None:
    say("waiting")
    signal.pause()


def test_a_worker_dies_with_the_process_that_made_it(tier):
    if tier != "namespaces":
        pytest.skip(f"this machine gives only the tier {tier}")
    import os
    import select
    import signal as signals
    import subprocess
    import sys
    import textwrap

    script = """
        import os, signal, sys
        from warpsmith.evaluator import _native
        ours, theirs = _native.Channel.pair()
        worker = _native.spawn(_native.Policy(), theirs)
        if isinstance(worker, _native.InChild):
            signal.pause()
        print(worker.pid, flush=True)
        signal.pause()
    """
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = os.pidfd_open(int(parent.stdout.readline()))
    parent.send_signal(signals.SIGKILL)
    parent.wait()
    readable, _, _ = select.select([worker], [], [], 10)
    os.close(worker)
    assert readable
