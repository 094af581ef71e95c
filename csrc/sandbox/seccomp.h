#pragma once

#include <linux/filter.h>
#include <sys/types.h>

#include <span>
#include <vector>

namespace warpsmith {

/// One denied system call, and the errno it returns.
struct Denied {
  int number;
  const char* name;
  int error;
};

/// The whole deny-list of this architecture, for tests and for the page that documents it.
std::span<const Denied> denied_calls();

/// What the filter depends on besides the list.
struct FilterOptions {
  bool programs = false;       ///< allow processes and execve: the policy names programs
  bool shared_memory = false;  ///< allow memory that no rlimit counts: memfd, shared mappings
  bool pid_namespace = true;   ///< without one, deny leaving the process group and reaching others
  pid_t pid = 0;               ///< without a pid namespace: the only process it can signal
};

/// Classic BPF: architecture, x32, the list, the argument checks; everything else is allowed.
std::vector<sock_filter> build_filter(const FilterOptions& options);

/// Install the filter. Needs no_new_privs. Raises Failure.
void install_filter(const std::vector<sock_filter>& filter);

}  // namespace warpsmith
