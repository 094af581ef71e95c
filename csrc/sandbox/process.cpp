#include "sandbox/process.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "core/failure.h"
#include "core/text.h"
#include "sandbox/sys.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

namespace warpsmith {

namespace {

constexpr const char* kLayer = "process";
constexpr unsigned kWholeGroup = 1u << 2;  // PIDFD_SIGNAL_PROCESS_GROUP

// The pid behind a pidfd, as this process sees it; -1 once it is reaped.
pid_t pid_of(int pidfd) {
  const std::string text = read_text("/proc/self/fdinfo/" + std::to_string(pidfd)).value_or("");
  for (const std::string_view line : split(text, '\n')) {
    const auto fields = words(line);
    if (fields.size() != 2 || fields[0] != "Pid:") continue;
    const auto pid = to_number(fields[1]);
    return pid ? static_cast<pid_t>(*pid) : -1;
  }
  return -1;
}

// Whether the process is an unreaped child of this one, so that its pid cannot have been reused.
bool is_own_child(int pidfd) {
  siginfo_t info{};
  return ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd), &info,
                  WEXITED | WNOHANG | WNOWAIT) == 0;
}

// A worker leads its process group and cannot leave it; nor can its children where there is no pid namespace
// to kill them by. Before Linux 6.9 a group is identified only by its pid, and only the parent is safe from
// reuse.
void kill_group(int pidfd) {
  if (sys::pidfd_send_signal(pidfd, SIGKILL, kWholeGroup) == 0 || errno != EINVAL || !is_own_child(pidfd))
    return;
  const pid_t pid = pid_of(pidfd);
  if (pid > 1 && ::getpgid(pid) == pid) ::kill(-pid, SIGKILL);
}

}  // namespace

void kill_worker(int pidfd) {
  kill_group(pidfd);
  if (sys::pidfd_send_signal(pidfd, SIGKILL, 0) != 0 && errno != ESRCH)
    throw system_failure(kLayer, "pidfd_send_signal", errno);
}

std::optional<Exit> wait_worker(int pidfd, const Deadline& deadline, const InterruptHook& interrupted) {
  if (!wait_ready(pidfd, POLLIN, deadline, kLayer, interrupted)) return std::nullopt;
  kill_group(pidfd);
  siginfo_t info{};
  while (::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd), &info, WEXITED) != 0) {
    if (errno == ECHILD)
      throw system_failure(
          kLayer, "waitid", errno,
          "Reset SIGCHLD to its default: while it is ignored, a child's exit status is lost.");
    if (errno != EINTR) throw system_failure(kLayer, "waitid", errno);
  }
  return Exit{info.si_code != CLD_EXITED, info.si_status};
}

}  // namespace warpsmith
