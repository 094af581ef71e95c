#include "sandbox/descriptors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "core/failure.h"
#include "sandbox/sys.h"

namespace warpsmith {

namespace {

constexpr const char* kLayer = "descriptors";

void close_between(unsigned first, unsigned last) {
  if (first <= last && sys::close_range(first, last, 0) != 0)
    throw system_failure(kLayer, "close_range", errno, "Linux 5.9 or later is needed.");
}

}  // namespace

void keep_descriptors(int channel_fd, int report_fd) {
  for (const int fd : {channel_fd, report_fd})
    if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) throw system_failure(kLayer, "F_SETFD", errno);
  const auto low = static_cast<unsigned>(std::min(channel_fd, report_fd));
  const auto high = static_cast<unsigned>(std::max(channel_fd, report_fd));
  close_between(STDERR_FILENO + 1, low - 1);
  close_between(low + 1, high - 1);
  close_between(high + 1, UINT_MAX);
}

}  // namespace warpsmith
