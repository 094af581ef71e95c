#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "device/addresses.h"
#include "device/driver.h"

namespace warpsmith {

/// A GPU and its primary context, which torch uses too. Retained for the life of the process.
class Device {
 public:
  /// Initialise the driver, retain the context and make it current in the calling thread. Raises Failure.
  static std::shared_ptr<Device> open(int ordinal);

  int ordinal() const { return ordinal_; }
  const std::string& name() const { return name_; }
  /// Compute capability as 10 * major + minor: 90.
  int arch() const { return arch_; }
  std::size_t total_bytes() const { return total_bytes_; }
  std::size_t l2_bytes() const { return l2_bytes_; }
  int multiprocessors() const { return multiprocessors_; }
  /// As nvidia-smi writes it: GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx.
  const std::string& uuid() const { return uuid_; }
  /// Whether kernels can read the ordinary memory of their own process.
  bool pageable_memory_access() const { return pageable_memory_access_; }
  /// The unit of shared allocations, in bytes.
  std::size_t granularity() const { return granularity_; }
  /// Most shared memory of one block, in bytes.
  int block_shared_bytes() const { return block_shared_bytes_; }

  /// Make the context current in the calling thread.
  void use() const;
  std::size_t free_bytes() const;
  /// Wait for all work of the context.
  void synchronize() const;

  /// The addresses of this process's mappings.
  AddressSpace& addresses() const { return *addresses_; }
  const cuda::Driver& driver() const { return *driver_; }
  cuda::Context context() const { return context_; }
  /// Properties of an allocation that other processes can map.
  cuda::AllocationProperties allocation_properties() const;

 private:
  Device(std::shared_ptr<const cuda::Driver> driver, int ordinal);
  int attribute(cuda::DeviceAttribute which) const;

  std::shared_ptr<const cuda::Driver> driver_;
  int ordinal_;
  cuda::DeviceId id_;
  std::string name_;
  int arch_;
  std::size_t total_bytes_;
  std::size_t l2_bytes_;
  int multiprocessors_;
  std::string uuid_;
  bool pageable_memory_access_;
  std::size_t granularity_;
  int block_shared_bytes_;
  std::unique_ptr<AddressSpace> addresses_;
  cuda::Context context_;
};

/// Makes a device's context current in this thread while it lives, and then restores the previous one.
class CurrentContext {
 public:
  explicit CurrentContext(const Device& device);
  /// For destructors: a failure is ignored, and the calls that need the context then do nothing.
  CurrentContext(const Device& device, std::nothrow_t) noexcept;
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  ~CurrentContext();

 private:
  const cuda::Driver& driver_;
  bool pushed_;
};

}  // namespace warpsmith
