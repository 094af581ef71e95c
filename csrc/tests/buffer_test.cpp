// Sealed memory: who can write it, and that it cannot be resized.

#include "protocol/buffer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "check.h"

namespace warpsmith {
namespace {

void test_input() {
  Buffer made = Buffer::create("test", 10'000, false);
  made.fill(7);
  const Buffer received = Buffer::map(made.fd(), 10'000, false);
  CHECK(std::memcmp(made.address(), received.address(), 10'000) == 0);
  static_cast<char*>(made.address())[9'999] = 1;
  CHECK(static_cast<const char*>(received.address())[9'999] == 1);
  CHECK(fails(FailureKind::kNative, "mmap", [&] { Buffer::map(made.fd(), 10'000, true); }));
  CHECK(::mprotect(received.address(), 4096, PROT_READ | PROT_WRITE) == -1 && errno == EACCES);
  CHECK(::ftruncate(made.fd(), 1) == -1 && errno == EPERM);
  CHECK(::ftruncate(made.fd(), 20'000) == -1 && errno == EPERM);
}

void test_output() {
  const Buffer made = Buffer::create("test", 4096, true);
  Buffer received = Buffer::map(made.fd(), 4096, true);
  received.fill(9);
  CHECK(static_cast<const char*>(made.address())[4095] == 9);
  CHECK(::ftruncate(made.fd(), 1) == -1 && errno == EPERM);
}

void test_refusals() {
  const Buffer made = Buffer::create("test", 4096, false);
  CHECK(fails(FailureKind::kNative, "size", [] { Buffer::create("test", 0, false); }));
  CHECK(fails(FailureKind::kNative, "size", [&] { Buffer::map(made.fd(), 4095, false); }));
  CHECK(fails(FailureKind::kNative, "size",
              [&] { Buffer::map(made.fd(), static_cast<std::size_t>(-1), false); }));
  CHECK(fails(FailureKind::kNative, "F_DUPFD_CLOEXEC", [] { Buffer::map(-1, 4096, false); }));
  const UniqueFd unsealed(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  CHECK(::ftruncate(unsealed.get(), 4096) == 0);
  CHECK(fails(FailureKind::kNative, "seals", [&] { Buffer::map(unsealed.get(), 4096, false); }));
  const UniqueFd device(::open("/dev/zero", O_RDWR));
  CHECK(fails(FailureKind::kNative, "seals", [&] { Buffer::map(device.get(), 4096, false); }));
}

void test_moves() {
  Buffer first = Buffer::create("test", 4096, false);
  void* address = first.address();
  const Buffer second = std::move(first);
  CHECK(second.address() == address);
  static_cast<char*>(address)[0] = 1;
}

}  // namespace
}  // namespace warpsmith

int main() {
  warpsmith::test_input();
  warpsmith::test_output();
  warpsmith::test_refusals();
  warpsmith::test_moves();
}
