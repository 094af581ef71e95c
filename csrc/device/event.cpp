#include "device/event.h"

#include <new>
#include <utility>

namespace warpsmith {

Event::Event(std::shared_ptr<const Device> device, bool timed) : device_(std::move(device)) {
  const CurrentContext current(*device_);
  device_->driver().event_create(&event_, timed ? cuda::kEventDefault : cuda::kEventDisableTiming);
}

Event::~Event() {
  const CurrentContext current(*device_, std::nothrow);
  device_->driver().event_destroy.result(event_);
}

void Event::record(std::uintptr_t stream) const {
  const CurrentContext current(*device_);
  device_->driver().event_record(event_, as_stream(stream));
}

bool Event::done() const {
  const CurrentContext current(*device_);
  const cuda::Result result = device_->driver().event_query.result(event_);
  if (result != cuda::kSuccess && result != cuda::kNotReady) device_->driver().event_query.raise(result);
  return result == cuda::kSuccess;
}

void Event::synchronize() const {
  const CurrentContext current(*device_);
  device_->driver().event_synchronize(event_);
}

float Event::elapsed_ms(const Event& start) const {
  const CurrentContext current(*device_);
  float elapsed = 0;
  device_->driver().event_elapsed(&elapsed, start.event_, event_);
  return elapsed;
}

}  // namespace warpsmith
