#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "device/device.h"
#include "device/event.h"

namespace warpsmith {

/// Four bytes of page-locked host memory that the device can read.
class HostWord {
 public:
  explicit HostWord(std::shared_ptr<const Device> device);
  HostWord(const HostWord&) = delete;
  HostWord& operator=(const HostWord&) = delete;
  ~HostWord();

  cuda::Address device_address() const { return device_address_; }
  /// Visible to the device after everything that this thread wrote before.
  void store(std::uint32_t value);

 private:
  std::shared_ptr<const Device> device_;
  std::uint32_t* word_ = nullptr;
  cuda::Address device_address_ = 0;
};

/// Blocks a stream until the host opens it, so that launches queue up behind it. A watchdog thread opens it
/// after a while, whatever the host code does: code that waits for a blocked stream cannot hang.
class Gate {
 public:
  explicit Gate(std::shared_ptr<const Device> device);
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  /// Opens the gate and waits until its stream has passed.
  ~Gate();

  /// Block work enqueued on `stream` from now on, for at most `seconds`. Raises Failure, also if the gate is
  /// still closed.
  void close(std::uintptr_t stream, double seconds);
  /// False if the gate was already open: the watchdog was first, or it was never closed.
  bool open();

 private:
  using Clock = std::chrono::steady_clock;

  // Separate from the gate, so that a forked child, which has no such thread, can leave all of it alone.
  struct Shared {
    explicit Shared(const std::shared_ptr<const Device>& device);

    bool open_locked();
    void watch();

    HostWord word;
    Event passed;
    std::mutex mutex;
    std::condition_variable changed;
    std::uint32_t counter = 0;
    bool closed = false;
    bool ending = false;
    Clock::time_point deadline;
    // When the watchdog wakes up next; `max` if it sleeps until it is notified.
    Clock::time_point watched = Clock::time_point::max();
    std::thread watchdog;
  };

  std::shared_ptr<const Device> device_;
  pid_t maker_;
  std::unique_ptr<Shared> shared_;
};

}  // namespace warpsmith
