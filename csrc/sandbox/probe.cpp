#include "sandbox/probe.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <functional>
#include <optional>

#include "core/deadline.h"
#include "core/failure.h"
#include "core/text.h"
#include "core/unique_fd.h"
#include "protocol/buffer.h"
#include "sandbox/capabilities.h"
#include "sandbox/cgroup.h"
#include "sandbox/landlock.h"
#include "sandbox/namespaces.h"
#include "sandbox/process.h"
#include "sandbox/seccomp.h"
#include "sandbox/spawn.h"
#include "sandbox/sys.h"

namespace warpsmith {

namespace {

constexpr double kPatienceSeconds = 30;
constexpr char kFieldEnd = '\x1f';
constexpr char kLayerEnd = '\x1e';
constexpr const char* kCgroupRemedy =
    "Delegate it as well: systemd delegates memory and pids together; elsewhere write +memory +pids to the "
    "parent's cgroup.subtree_control.";

// Runs `attempt`; its Failure becomes the layer's detail and remedy.
Layer try_layer(const std::string& name, const std::function<std::string()>& attempt) {
  try {
    return {name, true, attempt(), ""};
  } catch (const Failure& failure) {
    return {name, false, failure.message, failure.remedy};
  }
}

// Runs `attempt` in a separate child, since its effects cannot be undone.
std::string try_in_child(const std::function<void()>& attempt, const std::string& detail) {
  const pid_t pid = ::fork();
  if (pid < 0) throw system_failure("probe", "fork", errno);
  if (pid == 0) {
    try {
      attempt();
    } catch (const Failure& failure) {
      ::_exit(failure.error > 0 && failure.error < 256 ? failure.error : 255);
    }
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  const int error = WIFEXITED(status) ? WEXITSTATUS(status) : EFAULT;
  if (error != 0) throw system_failure("probe", detail, error);
  return detail + " works";
}

std::string enter_namespace(unsigned long long flags) {
  const Forked child = fork_into(flags);
  if (child.pid == 0) ::_exit(0);
  wait_worker(child.pidfd.get(), Deadline::never(), {});
  return "clone3 into it works";
}

// A worker with no binds at this tier, from start to end.
void start_worker(Tier tier, Cgroups* cgroups = nullptr) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw system_failure("probe", "socketpair", errno);
  const UniqueFd ours(ends[0]), theirs(ends[1]);
  Policy policy;
  policy.strongest_tier = policy.minimum_tier = tier;
  const SpawnResult worker = spawn(policy, theirs.get(), {[] {}, [] {}}, cgroups);
  if (worker.in_child()) ::_exit(0);
  wait_worker(worker.pidfd.get(), Deadline::never(), {});
  if (cgroups != nullptr) cgroups->remove(worker.cgroup);
}

std::string landlock_detail() {
  const int abi = landlock_abi();
  if (abi == 0)
    throw system_failure("landlock", "landlock_create_ruleset", errno,
                         "Linux 5.13 or later with landlock in the kernel's lsm= list is needed.");
  struct Since {
    int abi;
    const char* what;
  };
  static constexpr Since kLater[] = {{3, "truncation (Linux 6.2)"},
                                     {4, "TCP (6.7)"},
                                     {5, "device ioctls (6.10)"},
                                     {6, "signals and abstract sockets (6.12)"}};
  std::string missing;
  for (const Since& later : kLater)
    if (abi < later.abi) missing += std::string(missing.empty() ? ", without rules for " : ", ") + later.what;
  return "ABI " + std::to_string(abi) + missing;
}

// Starts a worker in a cgroup if that needs no moves. Moving the processes of a delegated cgroup is left to
// an evaluator's start: a probe must change nothing.
std::string cgroup_detail(const std::string& controller) {
  const CgroupPlace place = find_cgroup_place();
  if (std::ranges::find(place.controllers, controller) == place.controllers.end())
    throw Failure(FailureKind::kNative, "cgroup", controller, ENOENT,
                  "The controller '" + controller + "' is not given to " + place.directory + ".",
                  kCgroupRemedy);
  if (place.need == CgroupPlace::Need::kVacate)
    return "delegated at " + place.directory +
           "; its processes move to a child of it when an evaluator starts";
  Cgroups cgroups = Cgroups::open();
  start_worker(Tier::kNone, &cgroups);
  cgroups.close();
  return "a worker starts in a cgroup of its own below " + place.directory;
}

std::string sealed_memfd() {
  const Buffer buffer = Buffer::create("probe", 4096, false);
  return "a memfd sealed against writing by others works";
}

std::string open_pidfd() {
  const UniqueFd fd(sys::pidfd_open(::getpid()));
  if (!fd.valid()) throw system_failure("pidfd", "pidfd_open", errno, "Linux 5.3 or later is needed.");
  return "pidfd_open works";
}

void filter_self() {
  set_no_new_privileges();
  install_filter(build_filter({}));
}

void close_all() {
  if (sys::close_range(3, UINT_MAX, 0) != 0) throw system_failure("close_range", "close_range", errno);
}

std::vector<Layer> try_everything() {
  struct Namespace {
    const char* name;
    unsigned long long flag;
  };
  static constexpr Namespace kNamespaces[] = {{"user namespace", 0},
                                              {"pid namespace", CLONE_NEWPID},
                                              {"mount namespace", CLONE_NEWNS},
                                              {"net namespace", CLONE_NEWNET},
                                              {"ipc namespace", CLONE_NEWIPC},
                                              {"uts namespace", CLONE_NEWUTS},
                                              {"cgroup namespace", CLONE_NEWCGROUP}};
  std::vector<Layer> layers;
  for (const Namespace& entry : kNamespaces)
    layers.push_back(try_layer(entry.name, [&] { return enter_namespace(CLONE_NEWUSER | entry.flag); }));
  layers.push_back(try_layer("pivot_root", [] {
    start_worker(Tier::kNamespaces);
    return "a worker starts with a root of its own";
  }));
  layers.push_back(try_layer("landlock", landlock_detail));
  layers.push_back(try_layer("seccomp", [] { return try_in_child(filter_self, "a filter"); }));
  layers.push_back(
      try_layer("no_new_privs", [] { return try_in_child(set_no_new_privileges, "PR_SET_NO_NEW_PRIVS"); }));
  layers.push_back(try_layer("memfd seals", sealed_memfd));
  layers.push_back(try_layer("pidfd", open_pidfd));
  layers.push_back(try_layer("close_range", [] { return try_in_child(close_all, "close_range"); }));
  layers.push_back(try_layer("cgroup-memory", [] { return cgroup_detail("memory"); }));
  layers.push_back(try_layer("cgroup-pids", [] { return cgroup_detail("pids"); }));
  return layers;
}

std::string encode(const std::vector<Layer>& layers) {
  std::string text;
  for (const Layer& layer : layers) {
    for (const std::string& field :
         {layer.name, std::string(layer.available ? "1" : "0"), layer.detail, layer.remedy})
      text += field + kFieldEnd;
    text += kLayerEnd;
  }
  return text;
}

std::vector<Layer> decode(const std::string& text) {
  std::vector<Layer> layers;
  for (const std::string_view record : split(text, kLayerEnd)) {
    const auto fields = split(record, kFieldEnd);
    if (fields.size() != 4) throw system_failure("probe", "read the layers", EPROTO);
    layers.push_back(
        {std::string(fields[0]), fields[1] == "1", std::string(fields[2]), std::string(fields[3])});
  }
  return layers;
}

std::string read_all(int fd, const Deadline& deadline) {
  std::string text;
  std::array<char, 4096> part{};
  while (wait_ready(fd, POLLIN, deadline, "probe", {})) {
    const ssize_t got = ::read(fd, part.data(), part.size());
    if (got == 0) return text;
    if (got > 0) text.append(part.data(), static_cast<std::size_t>(got));
    if (got < 0 && errno != EINTR) throw system_failure("probe", "read", errno);
  }
  throw Failure(FailureKind::kDeadline, "probe", "layers", ETIMEDOUT,
                "Probing the machine took more than 30 seconds.");
}

// Runs `work` in a single-threaded child, even if this process has more threads, and returns its output.
std::string in_throw_away_child(const std::function<std::string()>& work) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw system_failure("probe", "pipe2", errno);
  UniqueFd from(ends[0]), to(ends[1]);
  Forked child = fork_plain();
  if (child.pid == 0) {
    ::setsid();
    const std::string text = work();
    const bool written = ::write(to.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::_exit(written ? 0 : 1);
  }
  to.reset();
  std::string text;
  try {
    text = read_all(from.get(), Deadline::after(kPatienceSeconds));
  } catch (const Failure&) {
    kill_worker(child.pidfd.get());
    wait_worker(child.pidfd.get(), Deadline::never(), {});
    throw;
  }
  wait_worker(child.pidfd.get(), Deadline::never(), {});
  return text;
}

}  // namespace

std::vector<Layer> probe_layers() {
  return decode(in_throw_away_child([] { return encode(try_everything()); }));
}

Tier achievable_tier() {
  const std::string name = in_throw_away_child([] {
    for (const Tier tier : {Tier::kNamespaces, Tier::kLandlock})
      if (try_layer("", [&] {
            start_worker(tier);
            return std::string();
          }).available)
        return std::string(tier_name(tier));
    return std::string(tier_name(Tier::kNone));
  });
  return tier_from(name);
}

}  // namespace warpsmith
