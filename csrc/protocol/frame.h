#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace warpsmith {

inline constexpr std::size_t kHeaderBytes = 24;
inline constexpr std::uint32_t kMaxPayloadBytes = 64u << 20;
/// Below the kernel's SCM_MAX_FD (253), so that one frame always fits one control message.
inline constexpr std::uint16_t kMaxFrameFds = 128;

/// The fixed head of every frame, in wire order after the magic `WSF1`.
struct FrameHeader {
  std::uint16_t kind = 0;
  std::uint16_t fds = 0;
  std::uint64_t sequence = 0;
  std::uint32_t length = 0;
  std::uint32_t crc = 0;

  bool operator==(const FrameHeader&) const = default;
};

using HeaderBytes = std::array<std::byte, kHeaderBytes>;

/// Little-endian bytes of `header`.
HeaderBytes encode_header(const FrameHeader& header);

/// Parse and check magic, length and descriptor count, and that the frame is number `expected_sequence`.
/// Raises Failure(kFrame).
FrameHeader decode_header(const HeaderBytes& bytes, std::uint64_t expected_sequence);

/// Raises Failure(kFrame) unless `payload` has the header's checksum.
void check_payload(const FrameHeader& header, std::span<const std::byte> payload);

/// Throw Failure(kFrame) with the violated rule and what was expected.
[[noreturn]] void raise_frame(const std::string& operation, const std::string& message);

}  // namespace warpsmith
