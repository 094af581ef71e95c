#include "sandbox/descriptors.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "core/failure.h"
#include "sandbox/sys.h"

namespace warpsmith {

namespace {

constexpr const char* kLayer = "descriptors";

// Out of the way of the fixed numbers, so that moving one cannot overwrite the other.
int lift(int fd) {
  const int high = ::fcntl(fd, F_DUPFD_CLOEXEC, kReportFd + 1);
  if (high < 0) throw system_failure(kLayer, "F_DUPFD_CLOEXEC", errno);
  return high;
}

void place(int fd, int at) {
  if (::dup3(fd, at, O_CLOEXEC) < 0) throw system_failure(kLayer, "dup3", errno);
}

}  // namespace

void keep_descriptors(int channel_fd, int report_fd) {
  const int channel = lift(channel_fd);
  const int report = lift(report_fd);
  place(channel, kChannelFd);
  place(report, kReportFd);
  if (sys::close_range(kReportFd + 1, UINT_MAX, 0) != 0)
    throw system_failure(kLayer, "close_range", errno, "Linux 5.9 or later is needed.");
}

}  // namespace warpsmith
