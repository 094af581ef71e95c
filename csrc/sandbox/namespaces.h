#pragma once

#include <sys/types.h>

#include "core/unique_fd.h"

namespace warpsmith {

/// The result of a fork on each side: in the child pid is 0.
struct Forked {
  pid_t pid = 0;
  UniqueFd pidfd;
};

/// The namespaces of a worker: user, pid, mount, net, ipc, uts and cgroup, as flags of clone3.
unsigned long long worker_namespaces();

/// Fork with clone3 into the namespaces of `flags`, and update the C library's record of the child's thread
/// id. The child starts in the cgroup whose directory is open as `cgroup_fd`, if given. Raises Failure in the
/// parent.
Forked fork_into(unsigned long long flags, int cgroup_fd = -1);

/// Fork without namespaces; the child still has a pidfd. Raises Failure in the parent.
Forked fork_plain();

/// Set the worker's own hostname. Raises Failure.
void set_hostname();

}  // namespace warpsmith
