#include "protocol/buffer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "core/failure.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace warpsmith {

namespace {

constexpr const char* kLayer = "buffer";
constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

[[noreturn]] void raise_rule(const std::string& operation, int error, const std::string& message) {
  throw Failure(FailureKind::kNative, kLayer, operation, error, message);
}

void check_size(std::size_t size) {
  if (size == 0 || size > static_cast<std::size_t>(std::numeric_limits<off_t>::max()))
    raise_rule("size", EINVAL, "A buffer has at least one byte.");
}

UniqueFd make_memfd(const std::string& name) {
  // The seal against execution needs Linux 6.3; an older kernel rejects the unknown flag.
  int fd = ::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
  if (fd < 0 && errno == EINVAL) fd = ::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) throw system_failure(kLayer, "memfd_create", errno);
  return UniqueFd(fd);
}

void* map_shared(int fd, std::size_t size, bool writable) {
  void* address = ::mmap(nullptr, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) throw system_failure(kLayer, "mmap", errno);
  return address;
}

void check_received(int fd, std::size_t size) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) raise_rule("seals", errno, "The descriptor is not a memfd, so its size is not reliable.");
  if ((seals & kSizeSeals) != kSizeSeals)
    raise_rule(
        "seals", EPERM,
        "The memfd is not sealed against shrinking and growing, so reading it could kill this process.");
  struct stat status{};
  if (::fstat(fd, &status) != 0) throw system_failure(kLayer, "fstat", errno);
  if (status.st_size < 0 || static_cast<std::size_t>(status.st_size) != size)
    raise_rule("size", EINVAL,
               "The memfd has " + std::to_string(status.st_size) + " bytes; " + std::to_string(size) +
                   " were expected.");
}

}  // namespace

Buffer Buffer::create(const std::string& name, std::size_t size, bool writable_by_peer) {
  check_size(size);
  UniqueFd fd = make_memfd(name);
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) throw system_failure(kLayer, "ftruncate", errno);
  // Mapped before it is sealed: F_SEAL_FUTURE_WRITE leaves existing mappings writable and denies new ones.
  void* address = map_shared(fd.get(), size, true);
  Buffer buffer(std::move(fd), address, size, true);
  const int seals = kSizeSeals | F_SEAL_SEAL | (writable_by_peer ? 0 : F_SEAL_FUTURE_WRITE);
  if (::fcntl(buffer.fd(), F_ADD_SEALS, seals) != 0)
    throw system_failure(kLayer, "F_ADD_SEALS", errno, "Linux 5.1 or later is needed.");
  return buffer;
}

Buffer Buffer::map(int fd, std::size_t size, bool writable) {
  check_size(size);
  UniqueFd own(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!own.valid()) throw system_failure(kLayer, "F_DUPFD_CLOEXEC", errno);
  check_received(own.get(), size);
  void* address = map_shared(own.get(), size, writable);
  return Buffer(std::move(own), address, size, writable);
}

Buffer::Buffer(UniqueFd fd, void* address, std::size_t size, bool writable)
    : fd_(std::move(fd)), address_(address), size_(size), writable_(writable) {}

Buffer::Buffer(Buffer&& other) noexcept
    : fd_(std::move(other.fd_)),
      address_(std::exchange(other.address_, nullptr)),
      size_(other.size_),
      writable_(other.writable_) {}

Buffer::~Buffer() {
  if (address_ != nullptr) ::munmap(address_, size_);
}

void Buffer::fill(unsigned char byte) {
  if (!writable_) raise_rule("fill", EACCES, "This mapping is read-only.");
  std::memset(address_, byte, size_);
}

}  // namespace warpsmith
