#pragma once

#include <cstddef>
#include <memory>

#include "core/unique_fd.h"
#include "device/device.h"

namespace warpsmith {

/// Physical memory of a device, released with its last mapping.
class DeviceAllocation {
 public:
  /// `bytes` is a multiple of the granularity. `shareable`: whether `share` must work. Raises Failure.
  static std::shared_ptr<const DeviceAllocation> create(std::shared_ptr<const Device> device,
                                                        std::size_t bytes, bool shareable);
  /// Memory that another process shared as `fd`, which the caller keeps. Raises Failure.
  static std::shared_ptr<const DeviceAllocation> import(std::shared_ptr<const Device> device, int fd);
  DeviceAllocation(const DeviceAllocation&) = delete;
  DeviceAllocation& operator=(const DeviceAllocation&) = delete;
  ~DeviceAllocation();

  /// A close-on-exec descriptor of this memory. Raises Failure.
  UniqueFd share() const;
  const Device& device() const { return *device_; }
  cuda::MemoryHandle handle() const { return handle_; }

 private:
  explicit DeviceAllocation(std::shared_ptr<const Device> device) : device_(std::move(device)) {}

  std::shared_ptr<const Device> device_;
  cuda::MemoryHandle handle_ = 0;
};

/// Device memory mapped at a random address of the process's `AddressSpace`, so that a kernel that has one
/// mapping cannot find another. Its destructor waits for the context's work, as freeing device memory does
/// elsewhere, then unmaps; it cannot fail.
class DeviceMemory {
 public:
  /// `bytes` is a multiple of the granularity. Raises Failure.
  DeviceMemory(std::shared_ptr<const DeviceAllocation> allocation, std::size_t bytes, bool writable);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  /// Set whether kernels can write. The caller waits for kernels that already use it. Raises Failure.
  void set_access(bool writable);

  const std::shared_ptr<const DeviceAllocation>& allocation() const { return allocation_; }
  const Device& device() const { return allocation_->device(); }
  cuda::Address address() const { return address_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void end() noexcept;

  std::shared_ptr<const DeviceAllocation> allocation_;
  std::size_t bytes_;
  cuda::Address address_ = 0;
  bool mapped_ = false;
};

/// Device memory that processes share as a descriptor, or that one uses alone. A mapping lives as long as the
/// object and every tensor made from it.
class DeviceBuffer {
 public:
  /// Allocate `size` bytes, rounded up to the device's granularity, writable here, and export them as a
  /// close-on-exec descriptor if `shareable`. The content is undefined: fill it. Raises Failure.
  static DeviceBuffer create(std::shared_ptr<const Device> device, std::size_t size, bool shareable);

  /// Map `size` bytes of another process's buffer. The descriptor is neither kept nor closed; it is not
  /// needed once this returns. Raises Failure.
  static DeviceBuffer map(std::shared_ptr<const Device> device, int fd, std::size_t size, bool writable);

  /// The same memory mapped again, at another address. Raises Failure.
  DeviceBuffer alias(bool writable) const;

  std::size_t size() const { return size_; }
  cuda::Address address() const { return memory_->address(); }
  bool writable() const { return writable_; }
  const std::shared_ptr<DeviceMemory>& memory() const { return memory_; }

  /// Raises Failure if there is none: a mapped buffer, or after close_fd.
  int fd() const;
  /// Close the descriptor. The memory stays.
  void close_fd() { fd_.reset(); }
  /// Set every byte on the legacy default stream, and wait until it is done. Raises Failure.
  void fill(unsigned char byte) const;
  /// Wait for the context's work, then deny writes by later kernels. Raises Failure.
  void protect();

 private:
  DeviceBuffer(std::shared_ptr<DeviceMemory> memory, UniqueFd fd, std::size_t size, bool writable);

  std::shared_ptr<DeviceMemory> memory_;
  UniqueFd fd_;
  std::size_t size_;
  bool writable_;
};

}  // namespace warpsmith
