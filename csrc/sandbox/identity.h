#pragma once

#include <sys/types.h>

namespace warpsmith {

/// A worker's ids outside its namespaces, and whether this process can give it ids other than its own.
struct Identity {
  bool privileged = false;
  bool may_set_groups = false;
  uid_t outer_uid = 0;
  gid_t outer_gid = 0;
};

/// The id that a worker sees as its own inside a user namespace.
inline constexpr unsigned kInnerId = 1000;
/// The id of a privileged caller's workers: RLIMIT_NPROC does not apply to the host's root.
inline constexpr unsigned kUnprivilegedId = 65534;

/// Determine it from this process's capabilities and id maps. Raises Failure.
Identity choose_identity();

/// In the parent: write the id maps of `pid`, which waits in its new user namespace. Raises Failure.
void write_id_maps(pid_t pid, const Identity& identity);

/// In the child, once the maps are written: become the mapped id and drop the caller's groups. Raises
/// Failure.
void become_mapped_id(const Identity& identity);

/// In a child without a user namespace: drop root and its groups, if the caller has them. Raises Failure.
void leave_root(const Identity& identity);

}  // namespace warpsmith
