#include "sandbox/seccomp.h"

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "core/failure.h"

namespace warpsmith {

namespace {

constexpr const char* kLayer = "seccomp";

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
constexpr std::uint32_t kX32Bit = 0x40000000u;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "The deny-list is written for x86-64 and AArch64."
#endif

#define DENY(call) \
  Denied { SYS_##call, #call, EPERM }
#define DENY_BY_NUMBER(number, call) \
  Denied { number, #call, EPERM }

constexpr Denied kDenied[] = {
    // clone3's flags are in memory, where a filter cannot look: on ENOSYS glibc falls back to clone.
    Denied{SYS_clone3, "clone3", ENOSYS},
    // Other processes' memory, descriptors and state.
    DENY(ptrace),
    DENY(process_vm_readv),
    DENY(process_vm_writev),
    DENY(kcmp),
    DENY_BY_NUMBER(438, pidfd_getfd),
    DENY_BY_NUMBER(440, process_madvise),
    DENY_BY_NUMBER(448, process_mrelease),
    // Kernel attack surface that no kernel under test needs.
    DENY(bpf),
    DENY(perf_event_open),
    DENY(userfaultfd),
    DENY(add_key),
    DENY(request_key),
    DENY(keyctl),
    DENY(io_uring_setup),
    DENY(io_uring_enter),
    DENY(io_uring_register),
    DENY(fanotify_init),
    DENY(fanotify_mark),
    DENY_BY_NUMBER(447, memfd_secret),
    DENY(move_pages),
    DENY(migrate_pages),
    DENY(lookup_dcookie),
    DENY(vmsplice),
    // Its own priority: a worker that lowers it would time out and look starved.
    DENY(setpriority),
    DENY(ioprio_set),
    DENY(sched_setparam),
    DENY(sched_setscheduler),
    DENY(sched_setattr),
    // Mounts, old and new.
    DENY(mount),
    DENY(umount2),
    DENY(pivot_root),
    DENY(chroot),
    DENY_BY_NUMBER(428, open_tree),
    DENY_BY_NUMBER(429, move_mount),
    DENY_BY_NUMBER(430, fsopen),
    DENY_BY_NUMBER(431, fsconfig),
    DENY_BY_NUMBER(432, fsmount),
    DENY_BY_NUMBER(433, fspick),
    DENY_BY_NUMBER(442, mount_setattr),
    DENY_BY_NUMBER(443, quotactl_fd),
    DENY_BY_NUMBER(457, statmount),
    DENY_BY_NUMBER(458, listmount),
    DENY_BY_NUMBER(467, open_tree_attr),
    DENY(quotactl),
    DENY(swapon),
    DENY(swapoff),
    // Namespaces.
    DENY(unshare),
    DENY(setns),
    // The machine itself.
    DENY(kexec_load),
    DENY(kexec_file_load),
    DENY(init_module),
    DENY(finit_module),
    DENY(delete_module),
    DENY(reboot),
    DENY(acct),
    DENY(syslog),
    DENY(settimeofday),
    DENY(clock_settime),
    DENY(clock_adjtime),
    DENY(adjtimex),
    DENY(sethostname),
    DENY(setdomainname),
    DENY(vhangup),
    DENY(nfsservctl),
    DENY(personality),
    // Files by handle, device nodes and named pipes.
    DENY(open_by_handle_at),
    DENY(name_to_handle_at),
    DENY(mknodat),
    // Queues, semaphores and memory outside the file system.
    DENY(shmget),
    DENY(shmat),
    DENY(shmctl),
    DENY(shmdt),
    DENY(semget),
    DENY(semop),
    DENY(semtimedop),
    DENY(semctl),
    DENY(msgget),
    DENY(msgsnd),
    DENY(msgrcv),
    DENY(msgctl),
    DENY(mq_open),
    DENY(mq_unlink),
    DENY(mq_timedsend),
    DENY(mq_timedreceive),
    DENY(mq_notify),
    DENY(mq_getsetattr),
    // Its own filters and module attributes.
    DENY(seccomp),
    DENY_BY_NUMBER(460, lsm_set_self_attr),
#if defined(__x86_64__)
    DENY(mknod),
    DENY(iopl),
    DENY(ioperm),
    DENY(modify_ldt),
    DENY(uselib),
    DENY(ustat),
    DENY(sysfs),
    DENY(_sysctl),
    DENY(create_module),
    DENY(get_kernel_syms),
    DENY(query_module),
    DENY(afs_syscall),
    DENY(tuxcall),
    DENY(security),
    DENY(epoll_ctl_old),
    DENY(epoll_wait_old),
#endif
};

// Without a pid namespace: calls that would leave the process group, or reach processes of the same user
// outside.
constexpr Denied kDeniedBesideOthers[] = {
    DENY(setsid),
    DENY(socket),
    DENY(setpgid),
    DENY(tkill),
    DENY(sched_setaffinity),
    DENY(connect),
    DENY(bind),
    DENY(pidfd_open),
    DENY(pidfd_send_signal),
};

#undef DENY
#undef DENY_BY_NUMBER

constexpr std::uint32_t kNewNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                         CLONE_NEWUSER | static_cast<std::uint32_t>(CLONE_NEWPID) |
                                         CLONE_NEWNET | CLONE_PARENT | CLONE_PTRACE;

constexpr std::uint32_t kPrctlDenied[] = {PR_SET_SECCOMP, PR_SET_DUMPABLE, PR_SET_PDEATHSIG, PR_SET_MM,
                                          PR_SET_PTRACER};

constexpr std::uint32_t kSocketTypeMask = 0xF;

constexpr std::uint32_t low_half(unsigned argument) {
  return static_cast<std::uint32_t>(offsetof(seccomp_data, args) + argument * sizeof(std::uint64_t));
}

// Writes a filter in which every test jumps at most over its own few instructions.
class Program {
 public:
  void load(std::uint32_t offset) { add(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)); }
  void load_number() { load(offsetof(seccomp_data, nr)); }
  void allow() { add(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)); }
  void fail(int error) {
    add(BPF_STMT(BPF_RET | BPF_K,
                 SECCOMP_RET_ERRNO | (static_cast<std::uint32_t>(error) & SECCOMP_RET_DATA)));
  }

  void fail_if_equal(std::uint32_t value, int error) {
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
    fail(error);
  }
  void fail_unless_equal(std::uint32_t value, int error) {
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0));
    fail(error);
  }
  void fail_if_any(std::uint32_t bits, int error) {
    add(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1));
    fail(error);
  }
  /// Keeps only `bits` of what is loaded.
  void keep(std::uint32_t bits) { add(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, bits)); }
  void fail_if_all(std::uint32_t bits, int error) {
    keep(bits);
    fail_if_equal(bits, error);
  }
  void fail_unless_any(std::uint32_t bits, int error) {
    add(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 1, 0));
    fail(error);
  }

  /// For the call `number` only: run `checks` on its argument, then allow.
  template <typename Checks>
  void on_argument(int number, unsigned argument, Checks checks) {
    const std::size_t jump = code_.size();
    add(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 0));
    load(low_half(argument));
    checks();
    allow();
    code_[jump].jf = static_cast<std::uint8_t>(code_.size() - jump - 1);
  }

  std::vector<sock_filter> take() { return std::move(code_); }

 private:
  void add(sock_filter instruction) { code_.push_back(instruction); }
  std::vector<sock_filter> code_;
};

void check_architecture(Program& program) {
  program.load(offsetof(seccomp_data, arch));
  program.fail_unless_equal(kArchitecture, EPERM);
  program.load_number();
#if defined(__x86_64__)
  program.fail_if_any(kX32Bit, EPERM);
#endif
}

void deny_all(Program& program, std::span<const Denied> list) {
  for (const Denied& call : list) program.fail_if_equal(static_cast<std::uint32_t>(call.number), call.error);
}

// A worker that starts no programs needs no processes either: threads share the memory that RLIMIT_DATA
// counts.
void deny_programs(Program& program) {
  program.fail_if_equal(SYS_execve, EPERM);
  program.fail_if_equal(SYS_execveat, EPERM);
#if defined(__x86_64__)
  program.fail_if_equal(SYS_fork, EPERM);
  program.fail_if_equal(SYS_vfork, EPERM);
#endif
}

void check_arguments(Program& program) {
  const auto only_unix = [&] { program.fail_unless_equal(AF_UNIX, EPERM); };
  program.on_argument(SYS_socket, 0, only_unix);
  program.on_argument(SYS_ioctl, 1, [&] {
    program.fail_if_equal(TIOCSTI, EPERM);
    program.fail_if_equal(TIOCLINUX, EPERM);
  });
  program.on_argument(SYS_prctl, 0, [&] {
    for (const std::uint32_t option : kPrctlDenied) program.fail_if_equal(option, EPERM);
  });
}

void check_clone(Program& program, bool processes) {
  program.on_argument(SYS_clone, 0, [&] {
    program.fail_if_any(kNewNamespaces, EPERM);
    if (processes) return;
    program.fail_unless_any(CLONE_THREAD, EPERM);
    // Descriptors of a single thread are visible only in its own table, and can hold memory.
    program.fail_unless_any(CLONE_FILES, EPERM);
  });
}

// RLIMIT_DATA counts only private writable memory: neither stacks nor shared memory.
void check_mappings(Program& program, bool shared_memory) {
  if (!shared_memory) program.fail_if_equal(SYS_memfd_create, EPERM);
  program.on_argument(SYS_mmap, 3, [&] {
    program.fail_if_any(MAP_GROWSDOWN, EPERM);
    if (!shared_memory) program.fail_if_all(MAP_SHARED | MAP_ANONYMOUS, EPERM);
  });
}

// A socket pair that is not a stream accepts addresses in memory, where a filter cannot look.
void check_socket_pairs(Program& program, bool pid_namespace) {
  program.on_argument(SYS_socketpair, pid_namespace ? 0 : 1, [&] {
    if (pid_namespace) return program.fail_unless_equal(AF_UNIX, EPERM);
    program.keep(kSocketTypeMask);
    program.fail_unless_equal(SOCK_STREAM, EPERM);
  });
}

// In the caller's pid namespace a worker can signal only itself, and cannot set limits of others.
void confine_to_self(Program& program, pid_t pid) {
  deny_all(program, kDeniedBesideOthers);
  const auto only_self = [&] { program.fail_unless_equal(static_cast<std::uint32_t>(pid), EPERM); };
  for (const int call : {SYS_kill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo})
    program.on_argument(call, 0, only_self);
  program.on_argument(SYS_prlimit64, 0, [&] { program.fail_unless_equal(0, EPERM); });
}

}  // namespace

std::span<const Denied> denied_calls() { return kDenied; }

std::vector<sock_filter> build_filter(const FilterOptions& options) {
  Program program;
  check_architecture(program);
  deny_all(program, kDenied);
  if (!options.programs) deny_programs(program);
  if (!options.pid_namespace) confine_to_self(program, options.pid);
  check_arguments(program);
  check_socket_pairs(program, options.pid_namespace);
  check_clone(program, options.programs);
  check_mappings(program, options.shared_memory);
  program.allow();
  return program.take();
}

void install_filter(const std::vector<sock_filter>& filter) {
  sock_fprog program{static_cast<unsigned short>(filter.size()), const_cast<sock_filter*>(filter.data())};
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
    throw system_failure(kLayer, "SECCOMP_SET_MODE_FILTER", errno, "The kernel needs CONFIG_SECCOMP_FILTER.");
}

}  // namespace warpsmith
