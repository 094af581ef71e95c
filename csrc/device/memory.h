#pragma once

#include <cstddef>
#include <memory>

#include "core/unique_fd.h"
#include "device/device.h"

namespace warpsmith {

/// Physical memory of a device, released with the last mapping of it.
class DeviceAllocation {
 public:
  /// `bytes` is a multiple of the granularity. `shareable`: whether `share` is to work. Raises Failure.
  static std::shared_ptr<const DeviceAllocation> create(std::shared_ptr<const Device> device,
                                                        std::size_t bytes, bool shareable);
  /// What another process shared under `fd`, which stays the caller's. Raises Failure.
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

/// Device memory mapped into this process's part of the device's address space, at an address of its
/// `AddressSpace`: a kernel that is given one mapping finds no other. Its destructor waits for the context's
/// work, as freeing device memory does elsewhere, then unmaps; it cannot fail.
class DeviceMemory {
 public:
  /// `bytes` is a multiple of the granularity. Raises Failure.
  DeviceMemory(std::shared_ptr<const DeviceAllocation> allocation, std::size_t bytes, bool writable);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  /// Say whether kernels may write. The caller waits for those that use it before. Raises Failure.
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

/// Device memory that processes hand to one another as a descriptor, or that one has for itself. A mapping
/// lives as long as the object and every tensor made from it.
class DeviceBuffer {
 public:
  /// Allocate `size` bytes, rounded up to the device's granularity, writable here, and export them under a
  /// close-on-exec descriptor if they are `shareable`. The bytes are what was there before: fill them. Raises
  /// Failure.
  static DeviceBuffer create(std::shared_ptr<const Device> device, std::size_t size, bool shareable);

  /// Map `size` bytes of a buffer that another process made. The descriptor is neither kept nor closed: it is
  /// not needed once this returns. Raises Failure.
  static DeviceBuffer map(std::shared_ptr<const Device> device, int fd, std::size_t size, bool writable);

  /// The same memory mapped once more, at another address. Raises Failure.
  DeviceBuffer alias(bool writable) const;

  std::size_t size() const { return size_; }
  cuda::Address address() const { return memory_->address(); }
  bool writable() const { return writable_; }
  const std::shared_ptr<DeviceMemory>& memory() const { return memory_; }

  /// Raises Failure where there is none: a mapped buffer, or after close_fd.
  int fd() const;
  /// Give the descriptor back. The memory stays.
  void close_fd() { fd_.reset(); }
  /// Set every byte, on the legacy default stream, and wait until it is done. Raises Failure.
  void fill(unsigned char byte) const;
  /// Wait for the context's work, and let no kernel write here from now on. Raises Failure.
  void protect();

 private:
  DeviceBuffer(std::shared_ptr<DeviceMemory> memory, UniqueFd fd, std::size_t size, bool writable);

  std::shared_ptr<DeviceMemory> memory_;
  UniqueFd fd_;
  std::size_t size_;
  bool writable_;
};

}  // namespace warpsmith
