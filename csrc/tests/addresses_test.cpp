#include "device/addresses.h"

#include <map>
#include <set>

#include "check.h"

namespace {

using warpsmith::Places;

constexpr std::size_t kUnit = 2 << 20;
constexpr std::uint64_t kBegin = std::uint64_t{5} << 40;
constexpr std::size_t kBytes = std::size_t{1} << 40;

bool is_refused(Places& places, std::size_t bytes) {
  return warpsmith::fails(warpsmith::FailureKind::kNative, "addresses", [&] { places.take(bytes); });
}

// Nothing is allocated twice, nor within a gap of another part or of the range's ends.
void parts_lie_apart() {
  Places places(kBegin, kBytes, kUnit);
  std::map<std::uint64_t, std::size_t> taken;
  for (std::size_t number = 1; number <= 100; ++number) taken[places.take(number * kUnit)] = number * kUnit;
  CHECK(taken.size() == 100);
  std::uint64_t end = kBegin;
  for (const auto& [address, bytes] : taken) {
    CHECK(address % kUnit == 0);
    CHECK(address >= end + Places::kGap);
    end = address + bytes;
  }
  CHECK(end + Places::kGap <= kBegin + kBytes);
}

void parts_cannot_be_foreseen() {
  std::set<std::uint64_t> first;
  for (int again = 0; again < 50; ++again) first.insert(Places(kBegin, kBytes, kUnit).take(kUnit));
  CHECK(first.size() > 40);
}

void what_is_given_back_is_given_out_again() {
  Places places(kBegin, 2 * Places::kGap + kUnit, kUnit);
  for (int again = 0; again < 3; ++again) {
    const std::uint64_t address = places.take(kUnit);
    CHECK(address == kBegin + Places::kGap);
    CHECK(is_refused(places, kUnit));
    places.give_back(address);
  }
}

void what_does_not_fit_is_refused() {
  Places places(kBegin, kBytes, kUnit);
  CHECK(is_refused(places, kBytes));
  CHECK(is_refused(places, kBytes - 2 * Places::kGap + kUnit));
  Places small(kBegin, Places::kGap, kUnit);
  CHECK(is_refused(small, kUnit));
}

}  // namespace

int main() {
  parts_lie_apart();
  parts_cannot_be_foreseen();
  what_is_given_back_is_given_out_again();
  what_does_not_fit_is_refused();
}
