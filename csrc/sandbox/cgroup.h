#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/unique_fd.h"
#include "sandbox/policy.h"

namespace warpsmith {

/// What the memory controller counted in one worker's cgroup.
struct CgroupEvents {
  std::uint64_t limit_reached = 0;  ///< times that memory.max was reached and nothing could be reclaimed
  std::uint64_t killed = 0;         ///< processes killed for want of memory, there or further up
};

/// Where the cgroups of workers can be made, and what has to happen first.
struct CgroupPlace {
  /// kVacate: its processes must move to a child before it can give controllers. kMake: it is not there yet.
  enum class Need { kNothing, kVacate, kMake };

  std::string directory;                 ///< the cgroup that is to hold them
  std::vector<std::string> controllers;  ///< those of memory and pids that it has or can be given
  Need need = Need::kNothing;
};

/// Find a subtree of cgroup v2 that is delegated to this process or, for the host's root, make room at the
/// top. Changes nothing. Raises Failure with the condition that is missing and how to get it.
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
  /// For clone3 with CLONE_INTO_CGROUP; -1 where there is no cgroup.
  int directory() const { return directory_.get(); }
  const std::string& name() const { return name_; }
  /// Open cgroup.procs, for a child that has to join by itself. Raises Failure.
  UniqueFd open_processes() const;
  /// Let go of the directory, whose removal is somebody else's now, and close its descriptor.
  std::string release();
  /// As `release`, in a child whose descriptors are closed already.
  void forget();

 private:
  std::string parent_;
  std::string name_;
  UniqueFd directory_;
};

/// One process's own directory for the cgroups of its workers. It is locked for as long as the process lives,
/// so that others know whose leftovers may be swept.
class Cgroups {
 public:
  /// Make the directory, moving the processes of a delegated cgroup into a child of it where that is needed,
  /// and sweep what dead processes left beside it. Raises Failure.
  static Cgroups open();
  Cgroups(Cgroups&&) noexcept = default;
  ~Cgroups();

  const std::string& path() const { return path_; }
  const std::vector<std::string>& controllers() const { return controllers_; }

  /// Make a worker's cgroup. `inherited_bytes` is what the worker may touch of its maker's memory, which
  /// counts as its own once it is copied. Raises Failure.
  CgroupLeaf make_leaf(const Policy& policy, std::uint64_t inherited_bytes);

  /// Kill what is left in a cgroup, remove it, and return what it counted. Raises Failure.
  CgroupEvents remove(const std::string& name);

  /// Remove the directory and all that is in it. Raises Failure.
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
