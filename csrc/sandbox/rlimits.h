#pragma once

#include <cstdint>

#include "sandbox/policy.h"

namespace warpsmith {

/// Mapped memory of a process: private writable memory (what RLIMIT_DATA counts), and all of it.
struct MappedBytes {
  std::uint64_t data = 0;
  std::uint64_t all = 0;
};

/// For this process, now. Raises Failure.
MappedBytes mapped_bytes();

/// Set every limit of the policy, soft and hard. `inherited`: what the worker inherited by the fork;
/// memory_bytes and address_space_bytes limit what it adds. Raises Failure.
void set_rlimits(const Policy& policy, const MappedBytes& inherited, bool own_user_namespace);

}  // namespace warpsmith
