#pragma once

namespace warpsmith {

/// Close every descriptor but 0, 1, 2 and the two, which keep their numbers: an object of the caller's that
/// still owns some other number must not close these when it goes. Both become close-on-exec. Raises Failure.
void keep_descriptors(int channel_fd, int report_fd);

}  // namespace warpsmith
