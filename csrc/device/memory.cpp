#include "device/memory.h"

#include <fcntl.h>

#include <cerrno>
#include <limits>
#include <new>
#include <utility>

#include "core/failure.h"

namespace warpsmith {

namespace {

constexpr const char* kLayer = "device";

[[noreturn]] void raise_rule(const std::string& operation, int error, const std::string& message,
                             const std::string& remedy = "") {
  throw Failure(FailureKind::kNative, kLayer, operation, error, message, remedy);
}

std::size_t rounded_size(std::size_t size, std::size_t granularity) {
  if (size == 0) raise_rule("size", EINVAL, "A device buffer has at least one byte.");
  if (size > std::numeric_limits<std::size_t>::max() / 2)
    raise_rule("size", EINVAL, "A device buffer of " + std::to_string(size) + " bytes fits no device.");
  return (size + granularity - 1) / granularity * granularity;
}

void close_on_exec(int fd) {
  const int flags = ::fcntl(fd, F_GETFD);
  if (flags < 0 || ::fcntl(fd, F_SETFD, flags | FD_CLOEXEC) != 0)
    throw system_failure(kLayer, "FD_CLOEXEC", errno);
}

// The driver's answer to a bad descriptor is not the same in every version.
void check_descriptor(int fd) {
  if (::fcntl(fd, F_GETFD) < 0)
    throw system_failure(kLayer, "fd", errno, "Give the descriptor of a DeviceBuffer, as it was received.");
}

}  // namespace

void DeviceMemory::allocate(std::size_t bytes) {
  const cuda::AllocationProperties properties = device_->allocation_properties();
  device_->driver().mem_create(&handle_, bytes, &properties, 0);
  held_ = true;
}

void DeviceMemory::import(int fd) {
  void* handle = reinterpret_cast<void*>(static_cast<std::uintptr_t>(fd));
  device_->driver().mem_import(&handle_, handle, cuda::kHandlePosixDescriptor);
  held_ = true;
}

void DeviceMemory::map(std::size_t bytes, bool writable) {
  const cuda::Driver& driver = device_->driver();
  driver.address_reserve(&address_, bytes, 0, 0, 0);
  reserved_bytes_ = bytes;
  driver.mem_map(address_, bytes, 0, handle_, 0);
  mapped_ = true;
  cuda::AccessDescription access;
  access.location = device_->allocation_properties().location;
  access.flags = writable ? cuda::kAccessReadWrite : cuda::kAccessRead;
  driver.mem_set_access(address_, bytes, &access, 1);
}

UniqueFd DeviceMemory::share() const {
  int fd = -1;
  device_->driver().mem_export(&fd, handle_, cuda::kHandlePosixDescriptor, 0);
  UniqueFd own(fd);
  close_on_exec(own.get());
  return own;
}

DeviceMemory::~DeviceMemory() {
  const cuda::Driver& driver = device_->driver();
  const CurrentContext current(*device_, std::nothrow);
  // Unmapping does not always wait for the kernels that still use the memory.
  if (mapped_) {
    driver.context_synchronize.result();
    driver.mem_unmap.result(address_, reserved_bytes_);
  }
  if (reserved_bytes_ > 0) driver.address_free.result(address_, reserved_bytes_);
  if (held_) driver.mem_release.result(handle_);
}

DeviceBuffer DeviceBuffer::create(std::shared_ptr<const Device> device, std::size_t size) {
  const std::size_t bytes = rounded_size(size, device->granularity());
  const CurrentContext current(*device);
  auto memory = std::make_shared<DeviceMemory>(device);
  memory->allocate(bytes);
  memory->map(bytes, true);
  UniqueFd fd = memory->share();
  return DeviceBuffer(std::move(memory), std::move(fd), size, true);
}

DeviceBuffer DeviceBuffer::map(std::shared_ptr<const Device> device, int fd, std::size_t size,
                               bool writable) {
  const std::size_t bytes = rounded_size(size, device->granularity());
  check_descriptor(fd);
  const CurrentContext current(*device);
  auto memory = std::make_shared<DeviceMemory>(device);
  memory->import(fd);
  memory->map(bytes, writable);
  return DeviceBuffer(std::move(memory), UniqueFd(), size, writable);
}

DeviceBuffer::DeviceBuffer(std::shared_ptr<DeviceMemory> memory, UniqueFd fd, std::size_t size, bool writable)
    : memory_(std::move(memory)), fd_(std::move(fd)), size_(size), writable_(writable) {}

int DeviceBuffer::fd() const {
  if (!fd_.valid())
    raise_rule("fileno", EBADF, "This device buffer has no descriptor: it was mapped, or closed.",
               "Pass on the descriptor of the buffer that was created.");
  return fd_.get();
}

void DeviceBuffer::fill(unsigned char byte) const {
  if (!writable_) raise_rule("fill", EACCES, "This mapping is read-only.", "Map it with writable=True.");
  const Device& device = memory_->device();
  const CurrentContext current(device);
  device.driver().memset_bytes(address(), byte, size_);
  // Setting device memory returns before it is done.
  device.driver().stream_synchronize(nullptr);
}

}  // namespace warpsmith
