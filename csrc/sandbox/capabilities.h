#pragma once

namespace warpsmith {

/// Empty the bounding set, the ambient set and all of the process's own sets, and lock the securebits.
/// Without CAP_SETPCAP (no user namespace, not root) only the own sets can be emptied, and are. Raises
/// Failure.
void drop_capabilities();

/// No program that this process starts can gain privileges. Raises Failure.
void set_no_new_privileges();

}  // namespace warpsmith
