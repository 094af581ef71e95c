#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace warpsmith {

/// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78), as in RFC 3720 appendix B.4.
std::uint32_t crc32c(std::span<const std::byte> bytes);

}  // namespace warpsmith
