#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "core/unique_fd.h"
#include "sandbox/cgroup.h"
#include "sandbox/policy.h"

namespace warpsmith {

/// Both sides of a spawn. In the child `pid` is 0 and the channel keeps its number.
struct SpawnResult {
  pid_t pid = 0;
  UniqueFd pidfd;
  UniqueFd output;
  Tier tier = Tier::kNone;
  std::string cgroup;  ///< its name in the caller's directory, or empty

  bool in_child() const { return pid == 0; }
};

/// Hooks of the host language around the fork, in the calling process.
struct ForkHooks {
  std::function<void()> before;
  std::function<void()> after_in_parent;
};

/// Fork a worker, contained as the policy says, at the strongest tier that this machine supports between the
/// policy's strongest and minimum, in a cgroup of its own if the caller has a directory for them. Returns
/// twice. The caller must be single-threaded; it removes the cgroup once the worker is reaped. Raises Failure
/// in the parent, and then leaves neither child nor cgroup.
SpawnResult spawn(const Policy& policy, int channel_fd, const ForkHooks& hooks, Cgroups* cgroups = nullptr);

}  // namespace warpsmith
