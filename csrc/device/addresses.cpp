#include "device/addresses.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdint>
#include <iterator>
#include <string>

#include "core/failure.h"

namespace warpsmith {

namespace {

constexpr const char* kLayer = "device";
// The first size to request, of the 2^47 bytes that a device shares with its host's processes.
constexpr std::size_t kMost = std::size_t{1} << 45;
constexpr std::size_t kLeast = std::size_t{1} << 38;
// Divisor of the reservable range: the rest is left to the driver.
constexpr std::size_t kShare = 2;
// After this many failed attempts in a row there is almost certainly no room.
constexpr int kDraws = 1000;

// An unpredictable number below `bound`. Bounds have at most 46 bits, so the bias is below 2^-17.
std::uint64_t random_below(std::uint64_t bound) {
  std::uint64_t drawn = 0;
  if (::getrandom(&drawn, sizeof drawn, 0) != static_cast<ssize_t>(sizeof drawn))
    throw system_failure(kLayer, "getrandom", errno);
  return drawn % bound;
}

[[noreturn]] void raise_full(const std::string& what) {
  throw Failure(FailureKind::kNative, kLayer, "addresses", ENOMEM, what,
                "Give the problem fewer or smaller tensors.");
}

}  // namespace

bool Places::is_free(std::uint64_t address, std::size_t bytes) const {
  const auto behind = taken_.lower_bound(address);
  if (behind != taken_.end() && address + bytes + kGap > behind->first) return false;
  if (behind == taken_.begin()) return true;
  const auto& [begin, size] = *std::prev(behind);
  return begin + size + kGap <= address;
}

std::uint64_t Places::take(std::size_t bytes) {
  if (bytes_ < 2 * kGap || bytes > bytes_ - 2 * kGap)
    raise_full("A mapping of " + std::to_string(bytes) + " bytes finds no addresses.");
  const std::uint64_t places = (bytes_ - bytes - 2 * kGap) / unit_ + 1;
  for (int draw = 0; draw < kDraws; ++draw) {
    const std::uint64_t address = begin_ + kGap + random_below(places) * unit_;
    if (!is_free(address, bytes)) continue;
    taken_.emplace(address, bytes);
    return address;
  }
  raise_full("There is no room between " + std::to_string(taken_.size()) + " mappings for another.");
}

Places AddressSpace::reserved() const {
  std::size_t most = kMost;
  cuda::Address found = 0;
  while (driver_.address_reserve.result(&found, most, 0, 0, 0) != cuda::kSuccess) {
    most /= 2;
    if (most < kLeast) raise_full("The driver reserves no 256 GiB of addresses.");
  }
  driver_.address_free.result(found, most);
  driver_.address_reserve(&found, most / kShare, 0, 0, 0);
  return Places(found, most / kShare, unit_);
}

cuda::Address AddressSpace::take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!places_) places_ = reserved();
  return places_->take(bytes);
}

void AddressSpace::give_back(cuda::Address address) noexcept {
  const std::lock_guard lock(mutex_);
  if (places_) places_->give_back(address);
}

}  // namespace warpsmith
