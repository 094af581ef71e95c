#pragma once

#include <cstdint>

#include "sandbox/policy.h"

namespace warpsmith {

/// What a process has mapped: private writable memory (what RLIMIT_DATA counts), and everything.
struct MappedBytes {
  std::uint64_t data = 0;
  std::uint64_t all = 0;
};

/// Of this process, now. Raises Failure.
MappedBytes mapped_bytes();

/// Set every limit of the policy, soft and hard alike. `inherited` is what the worker got by being forked:
/// memory_bytes and address_space_bytes are what it may add. Raises Failure.
void set_rlimits(const Policy& policy, const MappedBytes& inherited, bool own_user_namespace);

}  // namespace warpsmith
