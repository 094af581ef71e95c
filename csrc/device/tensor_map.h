#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/device.h"

namespace warpsmith {

/// A tensor and the block of it that one access moves. Sides are in elements, the outermost first.
struct Tiling {
  cuda::Address address;
  /// CUtensorMapDataType.
  int element;
  unsigned item_bytes;
  /// CUtensorMapSwizzle.
  int swizzle;
  /// What lies outside of the tensor reads as NaN, not as 0.
  bool nan_outside;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> strides;
  std::vector<std::uint32_t> block;
};

/// The bytes that a kernel takes for it. Raises Failure where the driver makes no such map.
std::string encode_tensor_map(const Device& device, const Tiling& tiling);

}  // namespace warpsmith
