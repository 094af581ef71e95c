#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/device.h"

namespace warpsmith {

/// A tensor and the block of one access. Sides are in elements, outermost first.
struct Tiling {
  cuda::Address address;
  /// CUtensorMapDataType.
  int element;
  unsigned item_bytes;
  /// CUtensorMapSwizzle.
  int swizzle;
  /// Reads outside the tensor return NaN instead of 0.
  bool nan_outside;
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> strides;
  std::vector<std::uint32_t> block;
};

/// A kernel's argument for the tensor. Raises Failure if the driver rejects the map.
std::string encode_tensor_map(const Device& device, const Tiling& tiling);

}  // namespace warpsmith
