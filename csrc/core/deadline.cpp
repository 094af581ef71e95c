#include "core/deadline.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include "core/failure.h"

namespace warpsmith {

namespace {
// Longer waits are practically infinite; the cap stays far from overflow of the clock's 64 bits.
constexpr double kLongestSeconds = 1e8;
}  // namespace

Deadline Deadline::after(std::optional<double> seconds) {
  if (!seconds) return never();
  if (std::isnan(*seconds) || *seconds < 0)
    throw Failure(FailureKind::kNative, "deadline", "timeout_s", EINVAL,
                  "A timeout is a number of seconds of 0 or more, or None for no limit.");
  const std::chrono::duration<double> span(std::min(*seconds, kLongestSeconds));
  return Deadline(Clock::now() + std::chrono::duration_cast<Clock::duration>(span));
}

std::optional<std::chrono::nanoseconds> Deadline::left() const {
  if (!at_) return std::nullopt;
  return std::max(std::chrono::nanoseconds(0),
                  std::chrono::duration_cast<std::chrono::nanoseconds>(*at_ - Clock::now()));
}

bool wait_ready(int fd, short events, const Deadline& deadline, const std::string& layer,
                const InterruptHook& interrupted) {
  while (true) {
    pollfd entry{fd, events, 0};
    timespec span{};
    const auto left = deadline.left();
    if (left) {
      span.tv_sec = static_cast<time_t>(left->count() / 1'000'000'000);
      span.tv_nsec = static_cast<long>(left->count() % 1'000'000'000);
    }
    const int ready = ::ppoll(&entry, 1, left ? &span : nullptr, nullptr);
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) throw system_failure(layer, "ppoll", errno);
    if (interrupted) interrupted();
  }
}

}  // namespace warpsmith
