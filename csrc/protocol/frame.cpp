#include "protocol/frame.h"

#include <cerrno>
#include <string>

#include "core/failure.h"
#include "protocol/crc32c.h"

namespace warpsmith {

namespace {

constexpr std::uint32_t kMagic = 0x31465357u;  // "WSF1" read as little-endian

template <typename Integer>
void store(HeaderBytes& bytes, std::size_t at, Integer value) {
  for (std::size_t i = 0; i < sizeof(Integer); ++i)
    bytes[at + i] = static_cast<std::byte>((static_cast<std::uint64_t>(value) >> (8 * i)) & 0xFFu);
}

template <typename Integer>
Integer load(const HeaderBytes& bytes, std::size_t at) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(Integer); ++i)
    value |= static_cast<std::uint64_t>(bytes[at + i]) << (8 * i);
  return static_cast<Integer>(value);
}

}  // namespace

void raise_frame(const std::string& operation, const std::string& message) {
  throw Failure(
      FailureKind::kFrame, "frame", operation, EBADMSG, message,
      "The peer does not speak this protocol or is hostile: drop the channel and the process behind it.");
}

HeaderBytes encode_header(const FrameHeader& header) {
  HeaderBytes bytes{};
  store(bytes, 0, kMagic);
  store(bytes, 4, header.kind);
  store(bytes, 6, header.fds);
  store(bytes, 8, header.sequence);
  store(bytes, 16, header.length);
  store(bytes, 20, header.crc);
  return bytes;
}

FrameHeader decode_header(const HeaderBytes& bytes, std::uint64_t expected_sequence) {
  if (load<std::uint32_t>(bytes, 0) != kMagic)
    raise_frame("magic", "A frame must begin with the bytes WSF1.");
  FrameHeader header;
  header.kind = load<std::uint16_t>(bytes, 4);
  header.fds = load<std::uint16_t>(bytes, 6);
  header.sequence = load<std::uint64_t>(bytes, 8);
  header.length = load<std::uint32_t>(bytes, 16);
  header.crc = load<std::uint32_t>(bytes, 20);
  if (header.length > kMaxPayloadBytes)
    raise_frame("length", "A frame announces " + std::to_string(header.length) + " bytes; at most " +
                              std::to_string(kMaxPayloadBytes) + " are allowed.");
  if (header.fds > kMaxFrameFds)
    raise_frame("descriptor count", "A frame announces " + std::to_string(header.fds) +
                                        " descriptors; at most " + std::to_string(kMaxFrameFds) +
                                        " are allowed.");
  if (header.sequence != expected_sequence)
    raise_frame("sequence", "A frame has number " + std::to_string(header.sequence) + "; number " +
                                std::to_string(expected_sequence) + " was expected.");
  return header;
}

void check_payload(const FrameHeader& header, std::span<const std::byte> payload) {
  if (crc32c(payload) != header.crc)
    raise_frame("checksum", "A frame's payload does not have the checksum that its header announces.");
}

}  // namespace warpsmith
