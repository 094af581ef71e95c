#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace warpsmith {

/// Called when a signal interrupts a wait; may throw to end the wait.
using InterruptHook = std::function<void()>;

/// A point of the monotonic clock, or never.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline never() { return Deadline(std::nullopt); }
  /// `seconds` from now; nothing means never. Raises Failure for NaN and negative values.
  static Deadline after(std::optional<double> seconds);

  bool passed() const { return at_ && Clock::now() >= *at_; }
  /// The remaining time for ppoll; nothing if the deadline is never.
  std::optional<std::chrono::nanoseconds> left() const;

 private:
  explicit Deadline(std::optional<Clock::time_point> at) : at_(at) {}
  std::optional<Clock::time_point> at_;
};

/// Wait until `fd` has one of `events` (poll's flags) or is closed by its peer. False if the deadline passed
/// first.
bool wait_ready(int fd, short events, const Deadline& deadline, const std::string& layer,
                const InterruptHook& interrupted);

}  // namespace warpsmith
