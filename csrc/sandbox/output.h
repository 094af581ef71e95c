#pragma once

#include <cstdint>

#include "core/unique_fd.h"

namespace warpsmith {

/// A memfd of exactly `bytes` that cannot grow: writing past its end fails with EPERM. Raises Failure.
UniqueFd make_output(std::uint64_t bytes);

/// Install `output_fd` as 1 and 2, and `null_fd` as 0. Raises Failure.
void redirect_standard_streams(int null_fd, int output_fd);

}  // namespace warpsmith
