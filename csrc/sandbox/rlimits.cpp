#include "sandbox/rlimits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "core/failure.h"
#include "core/text.h"

namespace warpsmith {

namespace {

constexpr const char* kLayer = "rlimits";
constexpr std::uint64_t kLargestStack = 64u << 20;
constexpr std::uint64_t kLockedBytes = 64u << 10;
constexpr std::uint64_t kPendingSignals = 1024;

void set_limit(__rlimit_resource_t resource, const char* name, std::uint64_t wanted) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0)
    throw system_failure(kLayer, std::string("getrlimit ") + name, errno);
  // A limit that is already tighter stays: raising it would need a privilege.
  const rlim_t value = std::min<rlim_t>(wanted, limit.rlim_max);
  limit = {value, value};
  if (::setrlimit(resource, &limit) != 0)
    throw system_failure(kLayer, std::string("setrlimit ") + name, errno);
}

// The stack's limit stays and cannot be raised: its growth does not count as data.
std::uint64_t stack_bytes() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0) throw system_failure(kLayer, "getrlimit STACK", errno);
  return std::min<std::uint64_t>(limit.rlim_cur, kLargestStack);
}

// RLIMIT_NPROC counts every task of a user. In a user namespace that is only the worker; elsewhere it
// includes the user's other tasks, and the number of all tasks is the closest bound on them that is cheap to
// read.
std::uint64_t tasks_beside(bool own_user_namespace) {
  if (own_user_namespace) return 0;
  constexpr std::size_t kRunningOfAll = 3;
  const std::string text = read_text("/proc/loadavg").value_or("");
  const auto fields = words(text);
  const auto tasks = fields.size() > kRunningOfAll ? split(fields[kRunningOfAll], '/') : fields;
  const auto total = tasks.size() == 2 ? to_number(tasks[1]) : std::nullopt;
  if (!total) throw system_failure(kLayer, "read /proc/loadavg", EIO);
  return *total;
}

}  // namespace

MappedBytes mapped_bytes() {
  constexpr std::size_t kAll = 0, kData = 5;
  const std::string text = read_text("/proc/self/statm").value_or("");
  const auto fields = words(text);
  const auto all = fields.size() > kData ? to_number(fields[kAll]) : std::nullopt;
  const auto data = fields.size() > kData ? to_number(fields[kData]) : std::nullopt;
  if (!all || !data) throw system_failure(kLayer, "read /proc/self/statm", EIO);
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return {*data * page, *all * page};
}

void set_rlimits(const Policy& policy, const MappedBytes& inherited, bool own_user_namespace) {
  set_limit(RLIMIT_CORE, "CORE", 0);
  set_limit(RLIMIT_NPROC, "NPROC", policy.processes + tasks_beside(own_user_namespace));
  set_limit(RLIMIT_NOFILE, "NOFILE", policy.open_files);
  set_limit(RLIMIT_FSIZE, "FSIZE", policy.file_bytes);
  set_limit(RLIMIT_CPU, "CPU", policy.cpu_seconds);
  set_limit(RLIMIT_DATA, "DATA", inherited.data + std::max(policy.memory_bytes, policy.data_bytes));
  // Pages that are only read do not count as data, but each of their page tables is 4 KiB of kernel memory.
  if (policy.address_space_bytes > 0) set_limit(RLIMIT_AS, "AS", inherited.all + policy.address_space_bytes);
  set_limit(RLIMIT_STACK, "STACK", stack_bytes());
  set_limit(RLIMIT_MEMLOCK, "MEMLOCK", kLockedBytes);
  set_limit(RLIMIT_MSGQUEUE, "MSGQUEUE", 0);
  set_limit(RLIMIT_SIGPENDING, "SIGPENDING", kPendingSignals);
  set_limit(RLIMIT_NICE, "NICE", 0);
  set_limit(RLIMIT_RTPRIO, "RTPRIO", 0);
}

}  // namespace warpsmith
