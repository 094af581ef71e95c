#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/kernel.h"
#include "device/memory.h"

/// The part of DLPack's binary interface (before its versioned form) that is used here.
namespace warpsmith::dlpack {

inline constexpr const char* kCapsuleName = "dltensor";
inline constexpr std::int32_t kCuda = 2;
inline constexpr std::uint8_t kUnsignedInteger = 1;

struct Tensor {
  void* data;
  std::int32_t device_type;
  std::int32_t device_id;
  std::int32_t dimensions;
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
static_assert(sizeof(Tensor) == 48);
static_assert(offsetof(Tensor, dimensions) == 16);
static_assert(offsetof(Tensor, code) == 20);
static_assert(offsetof(Tensor, shape) == 24);
static_assert(offsetof(Tensor, byte_offset) == 40);

struct ManagedTensor {
  Tensor tensor;
  void* manager;
  void (*deleter)(ManagedTensor*);
};
static_assert(sizeof(ManagedTensor) == 64);
static_assert(offsetof(ManagedTensor, deleter) == 56);

/// The buffer as a tensor of `size` bytes (uint8, one dimension) that keeps the memory until its deleter
/// runs, on any thread. This form of DLPack cannot mark a mapping as read-only.
ManagedTensor* make_tensor(const DeviceBuffer& buffer, std::size_t start, std::size_t size);

/// A variable of a loaded image as bytes, which keep the image until the deleter runs.
ManagedTensor* make_tensor(const std::shared_ptr<const LoadedModule>& module, const Variable& variable);

/// The deleter that `make_tensor` sets.
void delete_tensor(ManagedTensor* tensor);

}  // namespace warpsmith::dlpack
