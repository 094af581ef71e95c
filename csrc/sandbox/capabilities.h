#pragma once

namespace warpsmith {

/// Empty the bounding set, the ambient set and the process's own capability sets, and lock the securebits.
/// Without CAP_SETPCAP (no user namespace, not root) only the own sets are emptied. Raises Failure.
void drop_capabilities();

/// Prevent programs that this process starts from gaining privileges. Raises Failure.
void set_no_new_privileges();

}  // namespace warpsmith
