#pragma once

#include <cstdint>
#include <memory>

#include "device/device.h"

namespace warpsmith {

/// A point of a stream. Streams are passed as the value of torch's `cuda_stream`; 0 is the legacy default
/// stream.
class Event {
 public:
  explicit Event(std::shared_ptr<const Device> device, bool timed = true);
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();

  void record(std::uintptr_t stream) const;
  /// Whether all work before the last record is done; true if nothing was recorded. Raises Failure for a
  /// fault.
  bool done() const;
  void synchronize() const;
  /// The device's time from `start` to this event, in milliseconds. Raises Failure unless both are done.
  float elapsed_ms(const Event& start) const;

 private:
  std::shared_ptr<const Device> device_;
  cuda::Event event_ = nullptr;
};

/// A stream's handle, from its address.
inline cuda::Stream as_stream(std::uintptr_t stream) { return reinterpret_cast<cuda::Stream>(stream); }

}  // namespace warpsmith
