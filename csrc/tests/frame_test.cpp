// The codec of frame headers and its checksum.

#include "protocol/frame.h"

#include <cstring>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "check.h"
#include "protocol/crc32c.h"

namespace warpsmith {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

// Bit by bit from the polynomial, sharing nothing with the table or the machine's own instruction.
std::uint32_t crc_by_bits(std::span<const std::byte> bytes) {
  std::uint32_t crc = ~0u;
  for (const std::byte b : bytes) {
    crc ^= static_cast<std::uint32_t>(b);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) ? 0x82F63B78u : 0u);
  }
  return ~crc;
}

void test_checksum() {
  CHECK(crc32c(bytes_of("123456789")) == 0xE3069283u);
  CHECK(crc32c({}) == 0);
  std::mt19937 random(1);
  for (std::size_t size = 0; size < 200; ++size) {
    std::vector<std::byte> data(size + 3);
    for (std::byte& b : data) b = static_cast<std::byte>(random());
    const auto unaligned = std::span(data).subspan(3);
    CHECK(crc32c(unaligned) == crc_by_bits(unaligned));
  }
}

void test_layout() {
  const HeaderBytes bytes = encode_header({0x0102, 0x03, 0x0405060708090A0Bull, 0x0C0D, 0x0E0F1011});
  const unsigned char expected[kHeaderBytes] = {'W',  'S',  'F',  '1',  0x02, 0x01, 0x03, 0,
                                                0x0B, 0x0A, 0x09, 0x08, 0x07, 0x06, 0x05, 0x04,
                                                0x0D, 0x0C, 0,    0,    0x11, 0x10, 0x0F, 0x0E};
  CHECK(std::memcmp(bytes.data(), expected, kHeaderBytes) == 0);
}

void test_round_trip() {
  std::mt19937_64 random(2);
  for (int i = 0; i < 10'000; ++i) {
    const FrameHeader header{static_cast<std::uint16_t>(random()),
                             static_cast<std::uint16_t>(random() % (kMaxFrameFds + 1)), random(),
                             static_cast<std::uint32_t>(random() % (kMaxPayloadBytes + 1ull)),
                             static_cast<std::uint32_t>(random())};
    CHECK(decode_header(encode_header(header), header.sequence) == header);
  }
}

void test_rules() {
  const auto decode = [](FrameHeader header) {
    return [header] { decode_header(encode_header(header), 7); };
  };
  CHECK(!failure_of(decode({1, kMaxFrameFds, 7, kMaxPayloadBytes, 0})));
  CHECK(fails(FailureKind::kFrame, "length", decode({1, 0, 7, kMaxPayloadBytes + 1, 0})));
  CHECK(fails(FailureKind::kFrame, "length", decode({1, 0, 7, 0xFFFFFFFFu, 0})));
  CHECK(fails(FailureKind::kFrame, "descriptor count", decode({1, kMaxFrameFds + 1, 7, 0, 0})));
  CHECK(fails(FailureKind::kFrame, "sequence", decode({1, 0, 8, 0, 0})));
  CHECK(fails(FailureKind::kFrame, "magic", [] { decode_header(HeaderBytes{}, 0); }));
  FrameHeader header;
  header.crc = crc32c(bytes_of("abc"));
  CHECK(!failure_of([&] { check_payload(header, bytes_of("abc")); }));
  CHECK(fails(FailureKind::kFrame, "checksum", [&] { check_payload(header, bytes_of("abd")); }));
}

void test_random_headers() {
  std::mt19937_64 random(3);
  for (int i = 0; i < 100'000; ++i) {
    HeaderBytes bytes;
    for (std::byte& b : bytes) b = static_cast<std::byte>(random());
    if (i % 2) std::memcpy(bytes.data(), "WSF1", 4);
    const auto failure = failure_of([&] { decode_header(bytes, random() % 2); });
    CHECK(!failure || failure->kind == FailureKind::kFrame);
  }
}

}  // namespace
}  // namespace warpsmith

int main() {
  warpsmith::test_checksum();
  warpsmith::test_layout();
  warpsmith::test_round_trip();
  warpsmith::test_rules();
  warpsmith::test_random_headers();
}
