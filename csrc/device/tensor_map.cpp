#include "device/tensor_map.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include "core/failure.h"

namespace warpsmith {

namespace {

constexpr std::size_t kMaxRank = 5;
// With drivers up to this version CUTLASS and Triton clear a flag in the maps of small tensors; so do we.
constexpr int kLastMarkingDriver = 13010;
constexpr std::uint64_t kSmallBytes = 128 << 10;
constexpr std::uint64_t kMark = 1ULL << 21;

template <typename Side>
std::array<Side, kMaxRank> reversed(const std::vector<Side>& sides) {
  std::array<Side, kMaxRank> found{};
  std::ranges::reverse_copy(sides, found.begin());
  return found;
}

void check(const Tiling& tiling) {
  const std::size_t rank = tiling.block.size();
  if (rank == 0 || rank > kMaxRank || tiling.shape.size() != rank || tiling.strides.size() != rank)
    throw Failure(FailureKind::kNative, "device", "tensor_map", EINVAL,
                  "A tensor map has 1 to 5 dimensions, as many in its shape, strides and block.", "");
}

// The span of the tensor's memory in bytes, without its last element.
std::uint64_t span(const Tiling& tiling) {
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < tiling.shape.size(); ++i)
    last += (tiling.shape[i] - 1) * tiling.strides[i] * tiling.item_bytes;
  return last;
}

}  // namespace

std::string encode_tensor_map(const Device& device, const Tiling& tiling) {
  check(tiling);
  const cuda::Driver& driver = device.driver();
  const auto shape = reversed(tiling.shape);
  const auto block = reversed(tiling.block);
  // The driver takes strides in bytes, and none for the innermost dimension.
  auto strides = reversed(tiling.strides);
  std::ranges::transform(strides, strides.begin(),
                         [&](std::uint64_t side) { return side * tiling.item_bytes; });
  constexpr std::array<std::uint32_t, kMaxRank> kSteps{1, 1, 1, 1, 1};
  cuda::TensorMap map;
  const CurrentContext current(device);
  driver.tensor_map_encode(&map, tiling.element, static_cast<unsigned>(tiling.block.size()),
                           reinterpret_cast<void*>(tiling.address), shape.data(), strides.data() + 1,
                           block.data(), kSteps.data(), cuda::kInterleaveNone, tiling.swizzle,
                           cuda::kPromote128Bytes, tiling.nan_outside ? cuda::kFillNan : cuda::kFillZero);
  int version = 0;
  driver.driver_get_version(&version);
  if (version <= kLastMarkingDriver && span(tiling) + 1 < kSmallBytes) map.words[1] &= ~kMark;
  return {reinterpret_cast<const char*>(map.words), sizeof(map.words)};
}

}  // namespace warpsmith
