#pragma once

#include "core/failure.h"

namespace warpsmith {

/// In the child: say that containment is complete.
void report_success(int fd);
/// In the child: say which layer failed and how.
void report_failure(int fd, const Failure& failure);

/// In the parent: read what the child said, for at most ten seconds. Raises the child's Failure, or one that
/// says that it died without a word.
void await_report(int fd);

}  // namespace warpsmith
