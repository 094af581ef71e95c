#include "device/memory.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdint>
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

// Driver versions differ in their error for a bad descriptor.
void check_descriptor(int fd) {
  if (::fcntl(fd, F_GETFD) < 0)
    throw system_failure(kLayer, "fd", errno, "Give the descriptor of a DeviceBuffer, as it was received.");
}

}  // namespace

std::shared_ptr<const DeviceAllocation> DeviceAllocation::create(std::shared_ptr<const Device> device,
                                                                 std::size_t bytes, bool shareable) {
  const std::shared_ptr<DeviceAllocation> made(new DeviceAllocation(std::move(device)));
  cuda::AllocationProperties properties = made->device_->allocation_properties();
  if (!shareable) properties.handle_types = cuda::kHandleNone;
  made->device_->driver().mem_create(&made->handle_, bytes, &properties, 0);
  return made;
}

std::shared_ptr<const DeviceAllocation> DeviceAllocation::import(std::shared_ptr<const Device> device,
                                                                 int fd) {
  const std::shared_ptr<DeviceAllocation> made(new DeviceAllocation(std::move(device)));
  void* handle = reinterpret_cast<void*>(static_cast<std::uintptr_t>(fd));
  made->device_->driver().mem_import(&made->handle_, handle, cuda::kHandlePosixDescriptor);
  return made;
}

UniqueFd DeviceAllocation::share() const {
  int fd = -1;
  device_->driver().mem_export(&fd, handle_, cuda::kHandlePosixDescriptor, 0);
  UniqueFd own(fd);
  close_on_exec(own.get());
  return own;
}

DeviceAllocation::~DeviceAllocation() {
  if (handle_ == 0) return;
  const CurrentContext current(*device_, std::nothrow);
  device_->driver().mem_release.result(handle_);
}

DeviceMemory::DeviceMemory(std::shared_ptr<const DeviceAllocation> allocation, std::size_t bytes,
                           bool writable)
    : allocation_(std::move(allocation)), bytes_(bytes) {
  try {
    address_ = device().addresses().take(bytes_);
    device().driver().mem_map(address_, bytes_, 0, allocation_->handle(), 0);
    mapped_ = true;
    set_access(writable);
  } catch (...) {
    end();
    throw;
  }
}

void DeviceMemory::set_access(bool writable) {
  cuda::AccessDescription access;
  access.location = device().allocation_properties().location;
  access.flags = writable ? cuda::kAccessReadWrite : cuda::kAccessRead;
  device().driver().mem_set_access(address_, bytes_, &access, 1);
}

void DeviceMemory::end() noexcept {
  const cuda::Driver& driver = device().driver();
  const CurrentContext current(device(), std::nothrow);
  // Unmapping does not always wait for the kernels that still use the memory.
  if (mapped_) {
    driver.context_synchronize.result();
    driver.mem_unmap.result(address_, bytes_);
  }
  if (address_ != 0) device().addresses().give_back(address_);
}

DeviceMemory::~DeviceMemory() { end(); }

DeviceBuffer DeviceBuffer::create(std::shared_ptr<const Device> device, std::size_t size, bool shareable) {
  const std::size_t bytes = rounded_size(size, device->granularity());
  const CurrentContext current(*device);
  const auto allocation = DeviceAllocation::create(device, bytes, shareable);
  auto memory = std::make_shared<DeviceMemory>(allocation, bytes, true);
  UniqueFd fd = shareable ? allocation->share() : UniqueFd();
  return DeviceBuffer(std::move(memory), std::move(fd), size, true);
}

DeviceBuffer DeviceBuffer::map(std::shared_ptr<const Device> device, int fd, std::size_t size,
                               bool writable) {
  const std::size_t bytes = rounded_size(size, device->granularity());
  check_descriptor(fd);
  const CurrentContext current(*device);
  auto memory = std::make_shared<DeviceMemory>(DeviceAllocation::import(device, fd), bytes, writable);
  return DeviceBuffer(std::move(memory), UniqueFd(), size, writable);
}

DeviceBuffer DeviceBuffer::alias(bool writable) const {
  const CurrentContext current(memory_->device());
  auto memory = std::make_shared<DeviceMemory>(memory_->allocation(), memory_->bytes(), writable);
  return DeviceBuffer(std::move(memory), UniqueFd(), size_, writable);
}

DeviceBuffer::DeviceBuffer(std::shared_ptr<DeviceMemory> memory, UniqueFd fd, std::size_t size, bool writable)
    : memory_(std::move(memory)), fd_(std::move(fd)), size_(size), writable_(writable) {}

int DeviceBuffer::fd() const {
  if (!fd_.valid())
    raise_rule("fileno", EBADF,
               "This device buffer has no descriptor: it was mapped, closed, or not made shareable.",
               "Pass on the descriptor of the buffer that was created.");
  return fd_.get();
}

void DeviceBuffer::fill(unsigned char byte) const {
  if (!writable_) raise_rule("fill", EACCES, "This mapping is read-only.", "Map it with writable=True.");
  const Device& device = memory_->device();
  const CurrentContext current(device);
  device.driver().memset_bytes(address(), byte, size_);
  // Setting device memory is asynchronous.
  device.driver().stream_synchronize(nullptr);
}

void DeviceBuffer::protect() {
  const CurrentContext current(memory_->device());
  memory_->device().driver().context_synchronize();
  memory_->set_access(false);
  writable_ = false;
}

}  // namespace warpsmith
