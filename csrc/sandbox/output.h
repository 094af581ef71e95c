#pragma once

#include <cstdint>

#include "core/unique_fd.h"

namespace warpsmith {

/// A memfd of exactly `bytes` that cannot grow: writing past its end fails with EPERM. Raises Failure.
UniqueFd make_output(std::uint64_t bytes);

/// Put `output_fd` at 1 and 2, and `null_fd` at 0. Raises Failure.
void redirect_standard_streams(int null_fd, int output_fd);

}  // namespace warpsmith
