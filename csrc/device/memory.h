#pragma once

#include <cstddef>
#include <memory>

#include "core/unique_fd.h"
#include "device/device.h"

namespace warpsmith {

/// Device memory mapped into this process's part of the device's address space. Its destructor waits for the
/// context's work, as freeing device memory does elsewhere, then unmaps and releases; it cannot fail.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::shared_ptr<const Device> device) : device_(std::move(device)) {}
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  void allocate(std::size_t bytes);
  void import(int fd);
  /// `bytes` is a multiple of the granularity.
  void map(std::size_t bytes, bool writable);
  UniqueFd share() const;

  const Device& device() const { return *device_; }
  cuda::Address address() const { return address_; }

 private:
  std::shared_ptr<const Device> device_;
  cuda::MemoryHandle handle_ = 0;
  bool held_ = false;
  cuda::Address address_ = 0;
  std::size_t reserved_bytes_ = 0;
  bool mapped_ = false;
};

/// Device memory that processes hand to one another as a descriptor. The mapping lives as long as the object
/// and every tensor made from it.
class DeviceBuffer {
 public:
  /// Allocate `size` bytes, rounded up to the device's granularity, writable here, and export them under a
  /// close-on-exec descriptor. The bytes are what was there before: fill them. Raises Failure.
  static DeviceBuffer create(std::shared_ptr<const Device> device, std::size_t size);

  /// Map `size` bytes of a buffer that another process made. The descriptor is neither kept nor closed: it is
  /// not needed once this returns. Raises Failure.
  static DeviceBuffer map(std::shared_ptr<const Device> device, int fd, std::size_t size, bool writable);

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

 private:
  DeviceBuffer(std::shared_ptr<DeviceMemory> memory, UniqueFd fd, std::size_t size, bool writable);

  std::shared_ptr<DeviceMemory> memory_;
  UniqueFd fd_;
  std::size_t size_;
  bool writable_;
};

}  // namespace warpsmith
