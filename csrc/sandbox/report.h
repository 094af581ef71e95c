#pragma once

#include "core/failure.h"

namespace warpsmith {

/// In the child: report that containment is complete.
void report_success(int fd);
/// In the child: report which layer failed and how.
void report_failure(int fd, const Failure& failure);

/// In the parent: read the child's report, for at most ten seconds. Raises the child's Failure, or another if
/// the child died without a report.
void await_report(int fd);

}  // namespace warpsmith
