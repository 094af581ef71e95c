#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/unique_fd.h"
#include "sandbox/policy.h"

namespace warpsmith {

/// Counts of the memory controller for one worker's cgroup.
struct CgroupEvents {
  std::uint64_t limit_reached = 0;  ///< times that memory.max was reached with nothing to reclaim
  std::uint64_t killed = 0;         ///< processes killed by an out-of-memory event, here or in a parent
};

/// Where the cgroups of workers can be made, and what has to happen first.
struct CgroupPlace {
  /// kVacate: its processes must move to a child before it can enable controllers. kMake: it does not exist
  /// yet.
  enum class Need { kNothing, kVacate, kMake };

  std::string directory;                 ///< the parent of the workers' cgroups
  std::vector<std::string> controllers;  ///< which of memory and pids it has or can get
  Need need = Need::kNothing;
};

/// Find a cgroup v2 subtree that is delegated to this process or, for the host's root, room at the top.
/// Changes nothing. Raises Failure with the missing condition and how to establish it.
CgroupPlace find_cgroup_place();

/// The cgroup of one worker, removed with this object unless its name is released.
class CgroupLeaf {
 public:
  CgroupLeaf() = default;
  CgroupLeaf(std::string parent, std::string name, UniqueFd directory);
  CgroupLeaf(CgroupLeaf&& other) noexcept;
  CgroupLeaf& operator=(CgroupLeaf&& other) noexcept;
  ~CgroupLeaf();

  bool exists() const { return directory_.valid(); }
  /// For clone3 with CLONE_INTO_CGROUP; -1 without a cgroup.
  int directory() const { return directory_.get(); }
  const std::string& name() const { return name_; }
  /// Open cgroup.procs, for a child that has to join on its own. Raises Failure.
  UniqueFd open_processes() const;
  /// Give up ownership of the directory, which the caller then removes, and close its descriptor.
  std::string release();
  /// As `release`, in a child whose descriptors are already closed.
  void forget();

 private:
  std::string parent_;
  std::string name_;
  UniqueFd directory_;
};

/// One process's directory for the cgroups of its workers. It is locked while the process lives, so that
/// others know which leftovers can be swept.
class Cgroups {
 public:
  /// Make the directory, moving the processes of a delegated cgroup into a child of it if necessary, and
  /// sweep the leftovers of dead processes beside it. Raises Failure.
  static Cgroups open();
  Cgroups(Cgroups&&) noexcept = default;
  ~Cgroups();

  const std::string& path() const { return path_; }
  const std::vector<std::string>& controllers() const { return controllers_; }

  /// Make a worker's cgroup. `inherited_bytes`: memory of the parent process that the worker may touch; it
  /// counts as the worker's own once copied. Raises Failure.
  CgroupLeaf make_leaf(const Policy& policy, std::uint64_t inherited_bytes);

  /// Kill the remaining processes of a cgroup, remove it, and return its counts. Raises Failure.
  CgroupEvents remove(const std::string& name);

  /// Remove the directory with its content. Raises Failure.
  void close();

 private:
  Cgroups(std::string path, UniqueFd lock, std::vector<std::string> controllers);

  std::string path_;
  UniqueFd lock_;
  std::vector<std::string> controllers_;
  std::uint64_t made_ = 0;
};

/// Join the cgroup whose cgroup.procs is open as `fd`. Raises Failure.
void join_cgroup(int fd);

}  // namespace warpsmith
