#pragma once

namespace warpsmith {

/// Where a worker finds its channel.
inline constexpr int kChannelFd = 3;
/// Where the child keeps its report pipe until containment is complete.
inline constexpr int kReportFd = 4;

/// Move the two descriptors to their fixed numbers and close every other one but 0, 1 and 2. Raises Failure.
void keep_descriptors(int channel_fd, int report_fd);

}  // namespace warpsmith
