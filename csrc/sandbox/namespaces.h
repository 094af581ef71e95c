#pragma once

#include <sys/types.h>

#include "core/unique_fd.h"

namespace warpsmith {

/// What a fork returns on each side: in the child pid is 0.
struct Forked {
  pid_t pid = 0;
  UniqueFd pidfd;
};

/// The namespaces of a worker: user, pid, mount, net, ipc, uts and cgroup, as flags of clone3.
unsigned long long worker_namespaces();

/// Fork with clone3 into the namespaces of `flags`. The C library's record of the child's thread id is kept
/// right. The child begins in the cgroup whose directory is open as `cgroup_fd`, where that is given. Raises
/// Failure in the parent.
Forked fork_into(unsigned long long flags, int cgroup_fd = -1);

/// Fork without namespaces; the child has a pidfd all the same. Raises Failure in the parent.
Forked fork_plain();

/// A hostname of the worker's own. Raises Failure.
void set_hostname();

}  // namespace warpsmith
