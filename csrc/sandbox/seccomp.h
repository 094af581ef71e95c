#pragma once

#include <linux/filter.h>
#include <sys/types.h>

#include <span>
#include <vector>

namespace warpsmith {

/// One system call that no worker may make, and the errno it gets.
struct Denied {
  int number;
  const char* name;
  int error;
};

/// The whole deny-list of this architecture, for tests and for the page that documents it.
std::span<const Denied> denied_calls();

/// What the filter depends on beside the list.
struct FilterOptions {
  bool programs = false;       ///< processes and execve are wanted: the policy names programs
  bool shared_memory = false;  ///< memory that no rlimit counts is wanted: memfd, anonymous shared mappings
  bool pid_namespace = true;   ///< without one the worker may not leave its process group nor reach others
  pid_t pid = 0;               ///< without a pid namespace: the one process it may signal
};

/// Classic BPF: architecture, x32, the list, the checks of arguments; everything else is allowed.
std::vector<sock_filter> build_filter(const FilterOptions& options);

/// Install the filter. Needs no_new_privs. Raises Failure.
void install_filter(const std::vector<sock_filter>& filter);

}  // namespace warpsmith
