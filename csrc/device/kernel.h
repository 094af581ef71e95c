#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"

namespace warpsmith {

/// Where a variable of a loaded image lies.
struct Variable {
  cuda::Address address;
  std::size_t bytes;
};

/// A loaded image, unloaded with the last of its users.
class LoadedModule {
 public:
  /// Load the bytes of a cubin. Raises Failure.
  static std::shared_ptr<const LoadedModule> load(std::shared_ptr<const Device> device,
                                                  std::string_view cubin);
  LoadedModule(std::shared_ptr<const Device> device, const void* image);
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;
  ~LoadedModule();

  cuda::Function function(const std::string& name) const;
  /// A variable in global or constant memory. Raises Failure if the image has none of that name.
  Variable variable(const std::string& name) const;
  const Device& device() const { return *device_; }

 private:
  std::shared_ptr<const Device> device_;
  cuda::Module module_ = nullptr;
};

using Extent = std::array<unsigned, 3>;

/// The launch configuration of a kernel. `grid` counts the blocks of all clusters.
struct LaunchShape {
  Extent grid;
  Extent block;
  Extent cluster;
  bool cooperative;
};

/// A kernel with all its arguments except the stream, which can be launched any number of times.
class Launch {
 public:
  Launch(std::shared_ptr<const LoadedModule> module, cuda::Function function, const LaunchShape& shape,
         unsigned shared_bytes, const std::vector<std::string_view>& parameters);
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  /// One driver call in the calling thread's context; none for an empty grid. Raises Failure.
  void launch(std::uintptr_t stream) const;

 private:
  void add_attribute(const cuda::LaunchAttribute& attribute);
  void store_parameters(const std::vector<std::string_view>& parameters);

  std::shared_ptr<const LoadedModule> module_;
  cuda::Function function_;
  cuda::LaunchConfig config_;
  std::array<cuda::LaunchAttribute, 3> attributes_;
  // Units of 16 bytes: the largest alignment of a parameter.
  struct alignas(16) Unit {
    std::byte bytes[16];
  };
  std::vector<Unit> storage_;
  std::vector<void*> pointers_;
  bool empty_;
};

/// One kernel of a cubin.
class Kernel {
 public:
  /// A kernel of a loaded image. Kernels of one image share its variables. Raises Failure.
  Kernel(std::shared_ptr<const LoadedModule> module, std::string name, unsigned shared_bytes);
  /// `shared_bytes`: dynamic shared memory per block. Raises Failure.
  static Kernel load(std::shared_ptr<const Device> device, std::string_view cubin, const std::string& name,
                     unsigned shared_bytes);

  const std::string& name() const { return name_; }
  int registers() const { return attribute(cuda::kNumRegisters); }
  /// Local memory per thread (spilled registers and arrays), in bytes.
  int local_bytes() const { return attribute(cuda::kLocalSizeBytes); }
  int max_threads() const { return attribute(cuda::kMaxThreadsPerBlock); }

  /// `parameters`: the raw bytes of each. Raises Failure if their number or sizes do not match the kernel's.
  std::unique_ptr<Launch> prepare(const LaunchShape& shape,
                                  const std::vector<std::string_view>& parameters) const;
  void launch(const LaunchShape& shape, std::uintptr_t stream,
              const std::vector<std::string_view>& parameters) const;

 private:
  int attribute(cuda::FunctionAttribute which) const;
  void allow_shared_memory() const;
  void allow_cluster(const Extent& cluster) const;
  void check_parameters(const std::vector<std::string_view>& parameters) const;

  std::shared_ptr<const LoadedModule> module_;
  std::string name_;
  unsigned shared_bytes_;
  cuda::Function function_;
  std::vector<std::size_t> parameter_sizes_;
};

}  // namespace warpsmith
