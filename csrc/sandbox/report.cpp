#include "sandbox/report.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>

#include "core/deadline.h"

namespace warpsmith {

namespace {

constexpr double kPatienceSeconds = 10;

// Below PIPE_BUF, so that it is written and read atomically.
struct Report {
  std::int32_t success = 0;
  std::int32_t error = 0;
  char layer[32] = {};
  char operation[512] = {};
  char message[1024] = {};
  char remedy[1024] = {};
};
static_assert(sizeof(Report) <= 4096);

template <std::size_t N>
void put(char (&into)[N], const std::string& text) {
  text.copy(into, std::min(text.size(), N - 1));
}

void write_report(int fd, const Report& report) {
  // A failure here is ignored: the parent takes silence for failure.
  while (::write(fd, &report, sizeof report) < 0 && errno == EINTR) {
  }
}

}  // namespace

void report_success(int fd) {
  Report report;
  report.success = 1;
  write_report(fd, report);
}

void report_failure(int fd, const Failure& failure) {
  Report report;
  report.error = failure.error;
  put(report.layer, failure.layer);
  put(report.operation, failure.operation);
  put(report.message, failure.message);
  put(report.remedy, failure.remedy);
  write_report(fd, report);
}

void await_report(int fd) {
  Report report;
  if (!wait_ready(fd, POLLIN, Deadline::after(kPatienceSeconds), "spawn", {}))
    throw Failure(FailureKind::kDeadline, "spawn", "containment", ETIMEDOUT,
                  "The new worker did not finish its containment within ten seconds.");
  const ssize_t got = ::read(fd, &report, sizeof report);
  if (got != static_cast<ssize_t>(sizeof report))
    throw Failure(FailureKind::kNative, "spawn", "containment", ECHILD,
                  "The new worker died before its containment was complete.");
  if (report.success == 0)
    throw Failure(FailureKind::kNative, report.layer, report.operation, report.error, report.message,
                  report.remedy);
}

}  // namespace warpsmith
