#include "device/gate.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <new>
#include <utility>

#include "core/failure.h"

namespace warpsmith {

namespace {

constexpr const char* kLayer = "device";
// A stream blocked for longer was forgotten; the cap also keeps the clock far from overflow.
constexpr double kLongestSeconds = 3600;

std::chrono::steady_clock::duration watch_span(double seconds) {
  if (!(seconds > 0 && seconds <= kLongestSeconds))
    throw Failure(FailureKind::kNative, kLayer, "seconds", EINVAL,
                  "A gate is closed for more than 0 and at most 3600 seconds.");
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds));
}

// Python's handlers run in the main thread, so signals must interrupt that thread's waits.
void block_signals() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

}  // namespace

HostWord::HostWord(std::shared_ptr<const Device> device) : device_(std::move(device)) {
  const CurrentContext current(*device_);
  const cuda::Driver& driver = device_->driver();
  void* memory = nullptr;
  driver.host_alloc(&memory, sizeof *word_, cuda::kHostAllocPortable | cuda::kHostAllocDeviceMap);
  word_ = static_cast<std::uint32_t*>(memory);
  store(0);
  const cuda::Result result = driver.host_device_pointer.result(&device_address_, memory, 0);
  if (result == cuda::kSuccess) return;
  driver.host_free.result(memory);
  driver.host_device_pointer.raise(result);
}

HostWord::~HostWord() {
  const CurrentContext current(*device_, std::nothrow);
  device_->driver().host_free.result(word_);
}

void HostWord::store(std::uint32_t value) {
  std::atomic_ref<std::uint32_t>(*word_).store(value, std::memory_order_release);
}

Gate::Shared::Shared(const std::shared_ptr<const Device>& device) : word(device), passed(device, false) {}

bool Gate::Shared::open_locked() {
  if (!closed) return false;
  word.store(counter);
  closed = false;
  return true;
}

void Gate::Shared::watch() {
  block_signals();
  std::unique_lock lock(mutex);
  while (!ending) {
    if (!closed) {
      watched = Clock::time_point::max();
      changed.wait(lock);
    } else if (Clock::now() >= deadline) {
      open_locked();
    } else {
      // A copy: close() may change the deadline while this thread waits without the lock.
      const Clock::time_point until = watched = deadline;
      changed.wait_until(lock, until);
    }
  }
}

Gate::Gate(std::shared_ptr<const Device> device)
    : device_(std::move(device)), maker_(::getpid()), shared_(std::make_unique<Shared>(device_)) {
  shared_->watchdog = std::thread([shared = shared_.get()] { shared->watch(); });
}

Gate::~Gate() {
  if (::getpid() != maker_) {
    (void)shared_.release();
    return;
  }
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->open_locked();
    shared_->ending = true;
  }
  shared_->changed.notify_all();
  shared_->watchdog.join();
  // The device reads the word until its stream has passed. A fault ends that, too.
  try {
    shared_->passed.synchronize();
  } catch (const Failure&) {
    return;
  }
}

void Gate::close(std::uintptr_t stream, double seconds) {
  const auto span = watch_span(seconds);
  const std::lock_guard lock(shared_->mutex);
  if (shared_->closed)
    throw Failure(FailureKind::kNative, kLayer, "close", EBUSY, "This gate is closed already.",
                  "Open it first, or take a gate for each stream.");
  const CurrentContext current(*device_);
  ++shared_->counter;
  device_->driver().stream_wait_value(as_stream(stream), shared_->word.device_address(), shared_->counter,
                                      cuda::kWaitValueGeq);
  shared_->closed = true;
  shared_->deadline = Clock::now() + span;
  // A watchdog that wakes up before the deadline anyway is not notified, which would slow down each timed
  // call.
  if (shared_->deadline < shared_->watched) shared_->changed.notify_all();
  shared_->passed.record(stream);
}

bool Gate::open() {
  // The watchdog is not notified: at its deadline it finds nothing to do.
  const std::lock_guard lock(shared_->mutex);
  return shared_->open_locked();
}

}  // namespace warpsmith
