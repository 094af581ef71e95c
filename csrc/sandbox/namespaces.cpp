#include "sandbox/namespaces.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>

#include "core/failure.h"
#include "core/text.h"
#include "sandbox/sys.h"

#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ull
#endif
#ifndef PR_GET_TID_ADDRESS
#define PR_GET_TID_ADDRESS 40
#endif

namespace warpsmith {

namespace {

constexpr const char* kLayer = "namespaces";
constexpr const char* kRemedy =
    "Allow user namespaces: sysctl user.max_user_namespaces above 0, kernel.unprivileged_userns_clone=1 "
    "(Debian), kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu); in Docker --security-opt "
    "seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined; "
    "docs/sandbox.md has each platform.";

bool reads(const std::string& path, const char* value) {
  return read_text(path).value_or("").starts_with(value);
}

bool is_filtered() {
  const std::string text = read_text("/proc/self/status").value_or("");
  for (const std::string_view line : split(text, '\n')) {
    const auto fields = words(line);
    if (fields.size() == 2 && fields[0] == "Seccomp:") return fields[1] == "2";
  }
  return false;
}

// Switches seen to be off come first; the general advice follows, since a switch may be hidden.
std::string remedy() {
  std::string found;
  if (reads("/proc/sys/user/max_user_namespaces", "0\n"))
    found += "sysctl user.max_user_namespaces is 0 here: set it to 10000. ";
  if (reads("/proc/sys/kernel/unprivileged_userns_clone", "0") && ::geteuid() != 0)
    found += "sysctl kernel.unprivileged_userns_clone is 0 here: set it to 1, or start as root. ";
  if (reads("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") && ::geteuid() != 0)
    found +=
        "AppArmor denies user namespaces to ordinary users here: set the sysctl "
        "kernel.apparmor_restrict_unprivileged_userns to 0, give the Python interpreter a profile with "
        "`userns,`, "
        "or start as root. ";
  if (is_filtered())
    found += "A seccomp filter is in force here, as in a container: start the container without it. ";
  return found + kRemedy;
}

// Where the C library stores the thread's id: abort() and raise() read it, and a raw clone leaves the
// parent's there.
int* thread_id_address() {
  int* address = nullptr;
  if (::prctl(PR_GET_TID_ADDRESS, &address) != 0 || address == nullptr)
    throw system_failure(kLayer, "PR_GET_TID_ADDRESS", errno, "The kernel needs CONFIG_CHECKPOINT_RESTORE.");
  return address;
}

// The kernel drops a thread's list of robust futexes at fork; the C library's own fork restores it like this.
struct RobustList {
  void* head = nullptr;
  std::size_t size = 0;

  void remember() {
    if (::syscall(SYS_get_robust_list, 0, &head, &size) != 0) head = nullptr;
  }
  void restore() const {
    if (head != nullptr) ::syscall(SYS_set_robust_list, head, size);
  }
};

}  // namespace

unsigned long long worker_namespaces() {
  return CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
         CLONE_NEWCGROUP;
}

Forked fork_into(unsigned long long flags, int cgroup_fd) {
  int pidfd = -1;
  RobustList robust;
  robust.remember();
  clone_args args{};
  args.flags = flags | CLONE_PIDFD | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;
  args.pidfd = reinterpret_cast<std::uintptr_t>(&pidfd);
  args.child_tid = reinterpret_cast<std::uintptr_t>(thread_id_address());
  args.exit_signal = SIGCHLD;
  if (cgroup_fd >= 0) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = static_cast<std::uint64_t>(cgroup_fd);
  }
  const int pid = sys::clone3(&args, sizeof args);
  if (pid < 0) {
    const int error = errno;
    throw system_failure(kLayer, cgroup_fd < 0 ? "clone3" : "clone3 into a cgroup", error, remedy());
  }
  if (pid == 0) {
    robust.restore();
    return {};
  }
  return {pid, UniqueFd(pidfd)};
}

Forked fork_plain() {
  const pid_t pid = ::fork();
  if (pid < 0) throw system_failure("process", "fork", errno);
  if (pid == 0) return {};
  UniqueFd pidfd(sys::pidfd_open(pid));
  if (!pidfd.valid()) {
    const int error = errno;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    throw system_failure("process", "pidfd_open", error, "Linux 5.3 or later is needed.");
  }
  return {pid, std::move(pidfd)};
}

void set_hostname() {
  static constexpr char kName[] = "worker";
  if (::sethostname(kName, sizeof kName - 1) != 0) throw system_failure(kLayer, "sethostname", errno);
}

}  // namespace warpsmith
