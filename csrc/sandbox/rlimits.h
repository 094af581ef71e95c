#pragma once

#include <cstdint>

#include "sandbox/policy.h"

namespace warpsmith {

/// Bytes of private writable memory that this process has mapped now (what RLIMIT_DATA counts).
std::uint64_t mapped_data_bytes();

/// Set every limit of the policy, soft and hard alike. `inherited_data_bytes` is what the worker got by being
/// forked: memory_bytes is what it may add. RLIMIT_AS is never set, since CUDA reserves address space.
/// Raises Failure.
void set_rlimits(const Policy& policy, std::uint64_t inherited_data_bytes, bool own_user_namespace);

}  // namespace warpsmith
