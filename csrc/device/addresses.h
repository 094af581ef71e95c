#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "device/driver.h"

namespace warpsmith {

/// A range of addresses from which parts are allocated at random.
class Places {
 public:
  /// Free addresses on each side of a part.
  static constexpr std::size_t kGap = std::size_t{1} << 30;

  /// `begin` and `bytes` are multiples of `unit`, like all allocated parts.
  Places(std::uint64_t begin, std::size_t bytes, std::size_t unit)
      : begin_(begin), bytes_(bytes), unit_(unit) {}

  /// Allocate `bytes`, with kGap unallocated on either side. Raises Failure if there is no room.
  std::uint64_t take(std::size_t bytes);
  void give_back(std::uint64_t address) noexcept { taken_.erase(address); }

 private:
  bool is_free(std::uint64_t address, std::size_t bytes) const;

  std::uint64_t begin_;
  std::size_t bytes_;
  std::size_t unit_;
  std::map<std::uint64_t, std::size_t> taken_;
};

/// Random device addresses for the mappings of one process: no address is predictable, and none reveals
/// another. The range is reserved at the first use and kept for the life of the process, since the driver's
/// own choice of an address follows from the one before. Thread-safe.
class AddressSpace {
 public:
  /// `unit`: addresses and sizes are multiples of it.
  AddressSpace(const cuda::Driver& driver, std::size_t unit) : driver_(driver), unit_(unit) {}
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  /// See Places. The context must be current.
  cuda::Address take(std::size_t bytes);
  void give_back(cuda::Address address) noexcept;

 private:
  Places reserved() const;

  const cuda::Driver& driver_;
  std::size_t unit_;
  std::mutex mutex_;
  std::optional<Places> places_;
};

}  // namespace warpsmith
