#pragma once

#include <optional>

#include "core/deadline.h"

namespace warpsmith {

/// How a process ended.
struct Exit {
  bool signaled = false;
  int value = 0;  ///< the signal, or the exit code
};

/// SIGKILL the process and, if it leads one, its process group. A dead process is not an error.
void kill_worker(int pidfd);

/// Reap a child of this process, and kill the rest of its process group; nothing if the deadline passed
/// first. Raises Failure.
std::optional<Exit> wait_worker(int pidfd, const Deadline& deadline, const InterruptHook& interrupted);

}  // namespace warpsmith
