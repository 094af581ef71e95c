"""One row a system call: each is made inside a worker with harmless bad arguments and must be refused by number."""

import errno
import platform

import pytest

from warpsmith.evaluator import _native

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86-64")

# name, number on x86-64, the errno that a worker must get
DENIED = [
    ("ptrace", 101, errno.EPERM),
    ("process_vm_readv", 310, errno.EPERM),
    ("process_vm_writev", 311, errno.EPERM),
    ("kcmp", 312, errno.EPERM),
    ("pidfd_getfd", 438, errno.EPERM),
    ("process_madvise", 440, errno.EPERM),
    ("process_mrelease", 448, errno.EPERM),
    ("bpf", 321, errno.EPERM),
    ("perf_event_open", 298, errno.EPERM),
    ("userfaultfd", 323, errno.EPERM),
    ("add_key", 248, errno.EPERM),
    ("request_key", 249, errno.EPERM),
    ("keyctl", 250, errno.EPERM),
    ("io_uring_setup", 425, errno.EPERM),
    ("io_uring_enter", 426, errno.EPERM),
    ("io_uring_register", 427, errno.EPERM),
    ("fanotify_init", 300, errno.EPERM),
    ("fanotify_mark", 301, errno.EPERM),
    ("memfd_secret", 447, errno.EPERM),
    ("move_pages", 279, errno.EPERM),
    ("migrate_pages", 256, errno.EPERM),
    ("lookup_dcookie", 212, errno.EPERM),
    ("vmsplice", 278, errno.EPERM),
    ("setpriority", 141, errno.EPERM),
    ("ioprio_set", 251, errno.EPERM),
    ("sched_setparam", 142, errno.EPERM),
    ("sched_setscheduler", 144, errno.EPERM),
    ("sched_setattr", 314, errno.EPERM),
    ("mount", 165, errno.EPERM),
    ("umount2", 166, errno.EPERM),
    ("pivot_root", 155, errno.EPERM),
    ("chroot", 161, errno.EPERM),
    ("open_tree", 428, errno.EPERM),
    ("move_mount", 429, errno.EPERM),
    ("fsopen", 430, errno.EPERM),
    ("fsconfig", 431, errno.EPERM),
    ("fsmount", 432, errno.EPERM),
    ("fspick", 433, errno.EPERM),
    ("mount_setattr", 442, errno.EPERM),
    ("quotactl_fd", 443, errno.EPERM),
    ("statmount", 457, errno.EPERM),
    ("listmount", 458, errno.EPERM),
    ("open_tree_attr", 467, errno.EPERM),
    ("quotactl", 179, errno.EPERM),
    ("swapon", 167, errno.EPERM),
    ("swapoff", 168, errno.EPERM),
    ("unshare", 272, errno.EPERM),
    ("setns", 308, errno.EPERM),
    ("kexec_load", 246, errno.EPERM),
    ("kexec_file_load", 320, errno.EPERM),
    ("init_module", 175, errno.EPERM),
    ("finit_module", 313, errno.EPERM),
    ("delete_module", 176, errno.EPERM),
    ("reboot", 169, errno.EPERM),
    ("acct", 163, errno.EPERM),
    ("syslog", 103, errno.EPERM),
    ("settimeofday", 164, errno.EPERM),
    ("clock_settime", 227, errno.EPERM),
    ("clock_adjtime", 305, errno.EPERM),
    ("adjtimex", 159, errno.EPERM),
    ("sethostname", 170, errno.EPERM),
    ("setdomainname", 171, errno.EPERM),
    ("vhangup", 153, errno.EPERM),
    ("nfsservctl", 180, errno.EPERM),
    ("personality", 135, errno.EPERM),
    ("open_by_handle_at", 304, errno.EPERM),
    ("name_to_handle_at", 303, errno.EPERM),
    ("mknod", 133, errno.EPERM),
    ("mknodat", 259, errno.EPERM),
    ("shmget", 29, errno.EPERM),
    ("shmat", 30, errno.EPERM),
    ("shmctl", 31, errno.EPERM),
    ("shmdt", 67, errno.EPERM),
    ("semget", 64, errno.EPERM),
    ("semop", 65, errno.EPERM),
    ("semtimedop", 220, errno.EPERM),
    ("semctl", 66, errno.EPERM),
    ("msgget", 68, errno.EPERM),
    ("msgsnd", 69, errno.EPERM),
    ("msgrcv", 70, errno.EPERM),
    ("msgctl", 71, errno.EPERM),
    ("mq_open", 240, errno.EPERM),
    ("mq_unlink", 241, errno.EPERM),
    ("mq_timedsend", 242, errno.EPERM),
    ("mq_timedreceive", 243, errno.EPERM),
    ("mq_notify", 244, errno.EPERM),
    ("mq_getsetattr", 245, errno.EPERM),
    ("seccomp", 317, errno.EPERM),
    ("lsm_set_self_attr", 460, errno.EPERM),
    ("iopl", 172, errno.EPERM),
    ("ioperm", 173, errno.EPERM),
    ("modify_ldt", 154, errno.EPERM),
    ("uselib", 134, errno.EPERM),
    ("ustat", 136, errno.EPERM),
    ("sysfs", 139, errno.EPERM),
    ("_sysctl", 156, errno.EPERM),
    ("create_module", 174, errno.EPERM),
    ("get_kernel_syms", 177, errno.EPERM),
    ("query_module", 178, errno.EPERM),
    ("afs_syscall", 183, errno.EPERM),
    ("tuxcall", 184, errno.EPERM),
    ("security", 185, errno.EPERM),
    ("epoll_ctl_old", 214, errno.EPERM),
    ("epoll_wait_old", 215, errno.EPERM),
    ("clone3", 435, errno.ENOSYS),
]

NEW_NAMESPACES = {
    "NEWNS": 0x20000,
    "NEWCGROUP": 0x2000000,
    "NEWUTS": 0x4000000,
    "NEWIPC": 0x8000000,
    "NEWUSER": 0x10000000,
    "NEWPID": 0x20000000,
    "NEWNET": 0x40000000,
}
CLONE_PARENT, CLONE_PTRACE = 0x8000, 0x2000
SIGCHLD = 17

# what, number, arguments: each refused with EPERM for its arguments alone
DENIED_ARGUMENTS = [
    *((f"clone {name}", 56, (flag | SIGCHLD,)) for name, flag in NEW_NAMESPACES.items()),
    ("clone PARENT", 56, (CLONE_PARENT | SIGCHLD,)),
    ("clone PTRACE", 56, (CLONE_PTRACE | SIGCHLD,)),
    ("clone of a process", 56, (SIGCHLD,)),
    ("fork", 57, ()),
    ("vfork", 58, ()),
    ("execve", 59, (0, 0, 0)),
    ("execveat", 322, (-1, 0, 0, 0, 0)),
    ("ioctl TIOCSTI", 16, (0, 0x5412, 0)),
    ("ioctl TIOCLINUX", 16, (0, 0x541C, 0)),
    ("prctl PR_SET_SECCOMP", 157, (22, 2, 0)),
    ("prctl PR_SET_DUMPABLE", 157, (4, 1)),
    ("prctl PR_SET_PDEATHSIG", 157, (1, 0)),
    ("prctl PR_SET_MM", 157, (35, 1, 0)),
    ("prctl PR_SET_PTRACER", 157, (0x59616D61, 1)),
    ("memfd_create", 319, (0, 0)),
    ("mmap shared anonymous", 9, (0, 4096, 3, 0x21, -1, 0)),
    ("mmap shared-validate anonymous", 9, (0, 4096, 3, 0x23, -1, 0)),
    ("mmap that grows down", 9, (0, 4096, 3, 0x122, -1, 0)),
    ("x32 getpid", 0x40000000 | 39, ()),
    ("x32 ptrace", 0x40000000 | 521, (0, 0, 0, 0)),
]

ALLOWED = [
    ("getpid", 39, ()),
    ("mmap private", 9, (0, 4096, 3, 0x22, -1, 0)),
    ("ioctl TCGETS", 16, (-1, 0x5401, 0)),
    ("prctl PR_GET_DUMPABLE", 157, (3,)),
    ("kill of nobody", 62, (999999, 0)),
]


def probe_calls(calls: list) -> list:
    library = ctypes.CDLL(None, use_errno=True)  # noqa: F821
    library.syscall.restype = ctypes.c_long  # noqa: F821
    outcomes = []
    for number, arguments in calls:
        ctypes.set_errno(0)  # noqa: F821
        wide = [ctypes.c_long(value) for value in arguments]  # noqa: F821
        returned = library.syscall(ctypes.c_long(number), *wide)  # noqa: F821
        outcomes.append([returned, ctypes.get_errno()])  # noqa: F821
    return outcomes


BAD = (-1, -1, -1, -1, -1, -1)


def test_every_call_of_the_list_is_refused(contained):
    outcomes = contained.result_of(probe_calls, [(number, BAD) for _, number, _ in DENIED])
    expected = {name: [-1, error] for name, _, error in DENIED}
    assert dict(zip(expected, outcomes, strict=True)) == expected


def test_the_list_under_test_is_the_list_in_force():
    assert sorted(_native.denied_system_calls()) == sorted((name, number, error) for name, number, error in DENIED)


def test_calls_are_refused_for_their_arguments(contained):
    outcomes = contained.result_of(probe_calls, [(number, args) for _, number, args in DENIED_ARGUMENTS])
    expected = {what: [-1, errno.EPERM] for what, _, _ in DENIED_ARGUMENTS}
    assert dict(zip(expected, outcomes, strict=True)) == expected


def test_the_filter_leaves_ordinary_calls_alone(contained):
    outcomes = contained.result_of(probe_calls, [(number, args) for _, number, args in ALLOWED])
    assert all(error != errno.EPERM for _, error in outcomes), outcomes


def test_a_policy_with_shared_memory_allows_memfd_and_anonymous_sharing(contained):
    calls = [(319, (0, 0)), (9, (0, 4096, 3, 0x21, -1, 0))]
    outcomes = contained.result_of(probe_calls, calls, shared_memory=True)
    assert outcomes[0][1] == errno.EFAULT
    assert outcomes[1][0] > 0


def call_by_interrupt() -> int:
    """getpid by int 0x80: mov eax, 20; int 0x80; ret."""
    code = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7)  # noqa: F821
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))  # noqa: F821
    say("ready")  # noqa: F821
    return ctypes.CFUNCTYPE(ctypes.c_int)(address)()  # noqa: F821


def test_the_32_bit_entry_is_refused(contained):
    report = contained(call_by_interrupt)
    assert report.said == ["ready"]
    # A kernel without 32-bit emulation answers with a fault instead.
    assert report.result == -errno.EPERM or report.exit == [None, 11]


def use_every_family() -> dict:
    outcomes = {}
    for family in range(1, 46):
        try:
            socket.socket(family, socket.SOCK_DGRAM).close()  # noqa: F821
            outcomes[family] = 0
        except OSError as error:
            outcomes[family] = error.errno
    return outcomes


def test_no_socket_family_but_unix(contained):
    outcomes = contained.result_of(use_every_family)
    assert outcomes.pop("1") == 0
    assert set(outcomes.values()) == {errno.EPERM}
