#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "device/driver.h"

namespace warpsmith {

/// A range of addresses, of which parts are given out at random.
class Places {
 public:
  /// Free addresses on each side of a part.
  static constexpr std::size_t kGap = std::size_t{1} << 30;

  /// `begin` and `bytes` are multiples of `unit`, as what is taken is.
  Places(std::uint64_t begin, std::size_t bytes, std::size_t unit)
      : begin_(begin), bytes_(bytes), unit_(unit) {}

  /// A part of `bytes`, with kGap on either side that nobody else is given. Raises Failure where there is no
  /// room.
  std::uint64_t take(std::size_t bytes);
  void give_back(std::uint64_t address) noexcept { taken_.erase(address); }

 private:
  bool is_free(std::uint64_t address, std::size_t bytes) const;

  std::uint64_t begin_;
  std::size_t bytes_;
  std::size_t unit_;
  std::map<std::uint64_t, std::size_t> taken_;
};

/// Addresses of a device for the mappings of one process, given out at random: nobody can foresee one, and
/// none tells where another lies. What they are taken from is reserved at the first use and kept as long as
/// the process: the driver's own choice of an address follows from the one before. Threads may share it.
class AddressSpace {
 public:
  /// `unit` is what addresses and sizes are multiples of.
  AddressSpace(const cuda::Driver& driver, std::size_t unit) : driver_(driver), unit_(unit) {}
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  /// As of Places. The context must be current.
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
