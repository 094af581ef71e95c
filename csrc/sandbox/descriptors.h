#pragma once

namespace warpsmith {

/// Close every descriptor except 0, 1, 2 and the two given ones, which keep their numbers and become
/// close-on-exec: a caller's object that still owns another number must not close these when it is destroyed.
/// Raises Failure.
void keep_descriptors(int channel_fd, int report_fd);

}  // namespace warpsmith
