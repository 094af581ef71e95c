// The system call filter, run by an interpreter of classic BPF instead of the kernel.

#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "check.h"
#include "sandbox/seccomp.h"

namespace warpsmith {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kOwn = AUDIT_ARCH_X86_64;
constexpr std::uint32_t kOther = AUDIT_ARCH_I386;
#else
constexpr std::uint32_t kOwn = AUDIT_ARCH_AARCH64;
constexpr std::uint32_t kOther = AUDIT_ARCH_ARM;
#endif

// The few instructions that the filter uses; any other one ends the test.
std::uint32_t run(const std::vector<sock_filter>& code, const seccomp_data& data) {
  std::uint32_t value = 0;
  for (std::size_t at = 0;; ++at) {
    CHECK(at < code.size());
    const sock_filter& instruction = code[at];
    switch (instruction.code) {
      case BPF_LD | BPF_W | BPF_ABS:
        CHECK(instruction.k + sizeof value <= sizeof data);
        std::memcpy(&value, reinterpret_cast<const char*>(&data) + instruction.k, sizeof value);
        break;
      case BPF_ALU | BPF_AND | BPF_K:
        value &= instruction.k;
        break;
      case BPF_JMP | BPF_JEQ | BPF_K:
        at += value == instruction.k ? instruction.jt : instruction.jf;
        break;
      case BPF_JMP | BPF_JSET | BPF_K:
        at += (value & instruction.k) ? instruction.jt : instruction.jf;
        break;
      case BPF_RET | BPF_K:
        return instruction.k;
      default:
        CHECK(false);
    }
  }
}

struct Call {
  long number;
  std::uint64_t arguments[6] = {};
};

// The errno of a call; 0 if it is allowed.
int outcome(const FilterOptions& options, const Call& call, std::uint32_t architecture = kOwn) {
  seccomp_data data{};
  data.nr = static_cast<int>(call.number);
  data.arch = architecture;
  std::memcpy(data.args, call.arguments, sizeof call.arguments);
  const std::uint32_t result = run(build_filter(options), data);
  if (result == SECCOMP_RET_ALLOW) return 0;
  CHECK((result & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO);
  return static_cast<int>(result & SECCOMP_RET_DATA);
}

void test_the_whole_number_space() {
  std::set<int> denied;
  for (const Denied& call : denied_calls()) {
    CHECK(denied.insert(call.number).second);
    CHECK(outcome({true, true, true, 0}, {call.number}) == call.error);
  }
  for (int number = 0; number < 600; ++number) {
    if (number == SYS_socket || number == SYS_socketpair) continue;
    CHECK((outcome({true, true, true, 0}, {number}) != 0) == denied.contains(number));
  }
}

void test_other_architectures() {
  CHECK(outcome({}, {SYS_getpid}) == 0);
  CHECK(outcome({}, {SYS_getpid}, kOther) == EPERM);
#if defined(__x86_64__)
  CHECK(outcome({}, {0x40000000 | SYS_getpid}) == EPERM);
#endif
}

void test_programs_and_processes() {
  const FilterOptions without{}, with{true, false, true, 0};
  const std::uint64_t thread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD;
  for (const long call : {SYS_execve, SYS_execveat}) {
    CHECK(outcome(without, {call}) == EPERM);
    CHECK(outcome(with, {call}) == 0);
  }
  CHECK(outcome(without, {SYS_clone, {SIGCHLD}}) == EPERM);
  CHECK(outcome(without, {SYS_clone, {thread}}) == 0);
  CHECK(outcome(without, {SYS_clone, {thread & ~std::uint64_t{CLONE_FILES}}}) == EPERM);
  CHECK(outcome(with, {SYS_clone, {SIGCHLD}}) == 0);
  for (const std::uint64_t flag : {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWIPC,
                                   CLONE_NEWUTS, CLONE_NEWCGROUP, CLONE_PARENT, CLONE_PTRACE}) {
    CHECK(outcome(with, {SYS_clone, {flag | SIGCHLD}}) == EPERM);
    CHECK(outcome(with, {SYS_clone, {flag | thread}}) == EPERM);
  }
}

void test_arguments() {
  CHECK(outcome({}, {SYS_socket, {AF_UNIX}}) == 0);
  CHECK(outcome({}, {SYS_socket, {AF_INET}}) == EPERM);
  CHECK(outcome({}, {SYS_socket, {AF_NETLINK}}) == EPERM);
  CHECK(outcome({}, {SYS_prctl, {PR_SET_NAME}}) == 0);
  CHECK(outcome({}, {SYS_prctl, {PR_SET_SECCOMP}}) == EPERM);
  // The kernel reads these arguments as 32 bits: higher bits must not hide them.
  CHECK(outcome({}, {SYS_prctl, {PR_SET_SECCOMP | (1ull << 32)}}) == EPERM);
  CHECK(outcome({}, {SYS_ioctl, {0, 0x5412 | (7ull << 32)}}) == EPERM);
  CHECK(outcome({}, {SYS_ioctl, {0, 0x5401}}) == 0);
}

void test_mappings() {
  const FilterOptions shared{false, true, true, 0};
  const auto map = [](std::uint64_t flags) { return Call{SYS_mmap, {0, 4096, 3, flags}}; };
  CHECK(outcome({}, map(MAP_PRIVATE | MAP_ANONYMOUS)) == 0);
  CHECK(outcome({}, map(MAP_SHARED)) == 0);
  CHECK(outcome({}, map(MAP_SHARED | MAP_ANONYMOUS)) == EPERM);
  CHECK(outcome(shared, map(MAP_SHARED | MAP_ANONYMOUS)) == 0);
  CHECK(outcome(shared, map(MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN)) == EPERM);
  CHECK(outcome({}, {SYS_memfd_create}) == EPERM);
  CHECK(outcome(shared, {SYS_memfd_create}) == 0);
}

void test_without_a_pid_namespace() {
  const FilterOptions options{true, false, false, 123};
  for (const long call : {SYS_kill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo}) {
    CHECK(outcome(options, {call, {123}}) == 0);
    CHECK(outcome(options, {call, {124}}) == EPERM);
    CHECK(outcome(options, {call, {static_cast<std::uint64_t>(-1)}}) == EPERM);
    CHECK(outcome({}, {call, {124}}) == 0);
  }
  for (const long call :
       {SYS_setsid, SYS_setpgid, SYS_connect, SYS_bind, SYS_sched_setaffinity, SYS_pidfd_open})
    CHECK(outcome(options, {call}) == EPERM);
  CHECK(outcome(options, {SYS_socket, {AF_UNIX}}) == EPERM);
  CHECK(outcome(options, {SYS_socketpair, {AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC}}) == 0);
  CHECK(outcome(options, {SYS_socketpair, {AF_UNIX, SOCK_DGRAM}}) == EPERM);
  CHECK(outcome(options, {SYS_prlimit64, {0}}) == 0);
  CHECK(outcome(options, {SYS_prlimit64, {124}}) == EPERM);
}

void test_size() {
  for (const bool flag : {false, true}) CHECK(build_filter({flag, flag, flag, 1}).size() < BPF_MAXINSNS);
}

}  // namespace
}  // namespace warpsmith

int main() {
  warpsmith::test_the_whole_number_space();
  warpsmith::test_other_architectures();
  warpsmith::test_programs_and_processes();
  warpsmith::test_arguments();
  warpsmith::test_mappings();
  warpsmith::test_without_a_pid_namespace();
  warpsmith::test_size();
}
