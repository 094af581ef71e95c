#pragma once

#include <string>
#include <vector>

#include "core/unique_fd.h"
#include "sandbox/policy.h"

namespace warpsmith {

/// A bind with its source opened: a detached copy of its mounts, or a symbolic link to recreate.
struct PreparedBind {
  std::string target;
  std::string link;
  UniqueFd tree;
  bool directory = false;
};

/// Open the sources of the policy's binds and of the devices that every worker has. A privileged caller does
/// this before the fork, since the worker's id may lack access to them; any other caller in the child. Raises
/// Failure.
std::vector<PreparedBind> prepare_binds(const Policy& policy);

/// In the child: make the worker's own root of `binds`, /proc, /dev and the scratch, enter it, and detach the
/// host's. Raises Failure.
void enter_root(const Policy& policy, const std::vector<PreparedBind>& binds);

}  // namespace warpsmith
