#pragma once

#include <optional>

#include "core/deadline.h"

namespace warpsmith {

/// How a process ended.
struct Exit {
  bool signaled = false;
  int value = 0;  ///< the signal, or the exit code
};

/// SIGKILL the process and, where it leads one, its process group. One that is dead already is no error.
void kill_worker(int pidfd);

/// Reap a child of this process; nothing when the deadline passed first. What is left of its process group
/// dies with it. Raises Failure.
std::optional<Exit> wait_worker(int pidfd, const Deadline& deadline, const InterruptHook& interrupted);

}  // namespace warpsmith
