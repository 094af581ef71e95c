#include "sandbox/spawn.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <optional>
#include <vector>

#include "core/failure.h"
#include "sandbox/capabilities.h"
#include "sandbox/cgroup.h"
#include "sandbox/descriptors.h"
#include "sandbox/environment.h"
#include "sandbox/identity.h"
#include "sandbox/landlock.h"
#include "sandbox/namespaces.h"
#include "sandbox/output.h"
#include "sandbox/process.h"
#include "sandbox/report.h"
#include "sandbox/rlimits.h"
#include "sandbox/root.h"
#include "sandbox/seccomp.h"

namespace warpsmith {

namespace {

// Everything that is decided and opened before the fork.
struct Plan {
  const Policy& policy;
  Tier tier;
  int channel_fd;
  Identity identity;
  std::vector<PreparedBind> binds;
  MappedBytes inherited;
  EnvironmentArea environment;
  UniqueFd null;
  UniqueFd output;
  CgroupLeaf cgroup;
  UniqueFd cgroup_to_join;
};

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw system_failure("spawn", "pipe2", errno);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Only the calling thread survives a fork; a lock held by another would stay locked for ever.
void require_single_thread() {
  std::error_code error;
  const std::filesystem::directory_iterator tasks("/proc/self/task", error);
  if (error) throw system_failure("spawn", "read /proc/self/task", error.value(), "Mount /proc.");
  const auto threads = std::distance(tasks, {});
  if (threads != 1)
    throw Failure(FailureKind::kNative, "spawn", "threads", EDEADLK,
                  "A worker can be forked only from a process of one thread; this one has " +
                      std::to_string(threads) + ".",
                  "Spawn from the zygote before anything starts threads (set OPENBLAS_NUM_THREADS=1 and "
                  "OMP_NUM_THREADS=1).");
}

void require_channel(int channel_fd) {
  if (channel_fd <= STDERR_FILENO || ::fcntl(channel_fd, F_GETFD) < 0)
    throw Failure(FailureKind::kNative, "spawn", "channel", EBADF,
                  "A worker's channel must be an open descriptor of 3 or more.");
}

Plan make_plan(const Policy& policy, Tier tier, int channel_fd, Cgroups* cgroups) {
  Plan plan{policy, tier, channel_fd, choose_identity(), {}, mapped_bytes(), find_environment(), {},
            {},     {},   {}};
  if (tier == Tier::kNamespaces && plan.identity.privileged) plan.binds = prepare_binds(policy);
  plan.null.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!plan.null.valid()) throw system_failure("output", "open /dev/null", errno);
  plan.output = make_output(policy.output_bytes);
  if (cgroups != nullptr) plan.cgroup = cgroups->make_leaf(policy, plan.inherited.data);
  return plan;
}

void await_id_maps(int fd) {
  char byte = 0;
  while (true) {
    const ssize_t got = ::read(fd, &byte, 1);
    if (got == 1) return;
    if (got == 0) throw system_failure("identity", "await id maps", EPIPE);
    if (errno != EINTR) throw system_failure("identity", "read", errno);
  }
}

// The parent may have died before this request; then its end of the report pipe is closed.
void die_with_parent(int report_fd) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
    throw system_failure("process", "PR_SET_PDEATHSIG", errno);
  pollfd entry{report_fd, 0, 0};
  if (::poll(&entry, 1, 0) > 0) ::_exit(1);
}

void reset_signals() {
  for (int number = 1; number < NSIG; ++number) {
    // Python turns a broken pipe into an exception only while the signal is ignored.
    if (number != SIGKILL && number != SIGSTOP && number != SIGPIPE) ::signal(number, SIG_DFL);
  }
  sigset_t none;
  ::sigemptyset(&none);
  if (::sigprocmask(SIG_SETMASK, &none, nullptr) != 0) throw system_failure("process", "sigprocmask", errno);
}

void leave_session() {
  if (::setsid() < 0) throw system_failure("process", "setsid", errno);
  ::umask(077);
}

void set_dumpable(bool dumpable) {
  if (::prctl(PR_SET_DUMPABLE, dumpable ? 1 : 0, 0, 0, 0) != 0)
    throw system_failure("process", "PR_SET_DUMPABLE", errno);
}

// Makes the worker the first victim when the machine runs out of memory. This may fail; the limits still
// hold.
void volunteer_for_oom() {
  const UniqueFd fd(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
  if (fd.valid() && ::write(fd.get(), "1000", 4) != 4) return;
}

void check_in_place(const Policy& policy) {
  for (const Bind& bind : policy.binds) {
    if (bind.source != bind.target)
      throw Failure(FailureKind::kNative, "landlock", "bind " + bind.target, EINVAL,
                    "Without a mount namespace '" + bind.source + "' cannot appear as '" + bind.target + "'.",
                    "Give binds with equal source and target, or a machine that allows the namespaces tier.");
    if (::access(bind.source.c_str(), R_OK) != 0)
      throw system_failure(
          "landlock", "read " + bind.source, errno,
          "At this tier a worker of root runs as uid 65534: keep what it needs where that id can "
          "read it, or run the evaluator as an ordinary user.");
  }
}

void enter_scratch(const Policy& policy) {
  const char* where = policy.scratch_path.empty() ? "/" : policy.scratch_path.c_str();
  if (::chdir(where) != 0) throw system_failure("root filesystem", std::string("chdir ") + where, errno);
}

void enter_namespaces(Plan& plan, int maps_fd) {
  await_id_maps(maps_fd);
  become_mapped_id(plan.identity);
  if (!plan.identity.privileged) plan.binds = prepare_binds(plan.policy);
  enter_root(plan.policy, plan.binds);
  set_hostname();
}

void stay_in_host(const Plan& plan) {
  if (plan.tier == Tier::kLandlock) {
    leave_root(plan.identity);
    check_in_place(plan.policy);
  }
  enter_scratch(plan.policy);
}

// The order of containment. Each step relies on the ones above it: identity before files are made, files
// before capabilities are dropped, capabilities before Landlock, and the filter last, since it denies calls
// of the others.
void contain(Plan& plan, int maps_fd, int report_fd) {
  const Policy& policy = plan.policy;
  const bool namespaces = plan.tier == Tier::kNamespaces;
  if (plan.cgroup_to_join.valid()) join_cgroup(plan.cgroup_to_join.get());
  reset_signals();
  leave_session();
  volunteer_for_oom();
  if (namespaces)
    enter_namespaces(plan, maps_fd);
  else
    stay_in_host(plan);
  die_with_parent(report_fd);
  redirect_standard_streams(plan.null.get(), plan.output.get());
  replace_environment(plan.environment, policy.worker_environment(plan.tier));
  drop_capabilities();
  set_dumpable(policy.dumpable);
  set_rlimits(policy, plan.inherited, namespaces);
  keep_descriptors(plan.channel_fd, report_fd);
  set_no_new_privileges();
  if (plan.tier == Tier::kNone) return;
  restrict_with_landlock(policy, plan.tier);
  install_filter(build_filter({policy.may_fork(), policy.shared_memory, namespaces, ::getpid()}));
}

[[noreturn]] void give_up(int report_fd, const Failure& failure) {
  report_failure(report_fd, failure);
  ::_exit(1);
}

void run_child(Plan& plan, Pipe& maps, Pipe& report) {
  maps.write.reset();
  report.read.reset();
  const int report_fd = report.write.get();
  try {
    contain(plan, maps.read.get(), report_fd);
    report_success(report_fd);
    ::close(report_fd);
  } catch (const Failure& failure) {
    give_up(report_fd, failure);
  } catch (const std::exception& error) {
    give_up(report_fd, Failure(FailureKind::kNative, "spawn", "containment", ENOMEM, error.what()));
  }
}

void finish_in_parent(const Plan& plan, const Forked& child, Pipe& maps, Pipe& report) {
  maps.read.reset();
  report.write.reset();
  try {
    if (plan.tier == Tier::kNamespaces) {
      write_id_maps(child.pid, plan.identity);
      if (::write(maps.write.get(), "m", 1) != 1)
        throw system_failure("identity", "release the worker", errno);
    }
    await_report(report.read.get());
  } catch (const Failure&) {
    kill_worker(child.pidfd.get());
    wait_worker(child.pidfd.get(), Deadline::never(), {});
    throw;
  }
}

// clone3 starts it in its cgroup: joining one later makes the kernel wait for all processors. Without
// namespaces clone3 is not needed otherwise, and a container's filter may deny it.
Forked fork_worker(Plan& plan) {
  const int cgroup_fd = plan.cgroup.directory();
  if (plan.tier == Tier::kNamespaces) return fork_into(worker_namespaces(), cgroup_fd);
  if (!plan.cgroup.exists()) return fork_plain();
  try {
    return fork_into(0, cgroup_fd);
  } catch (const Failure&) {
    plan.cgroup_to_join = plan.cgroup.open_processes();
    return fork_plain();
  }
}

// In the child: numbers of descriptors that are closed, or have been reused.
void forget_descriptors(Plan& plan, Pipe& maps, Pipe& report) {
  for (UniqueFd* fd :
       {&maps.read, &maps.write, &report.read, &report.write, &plan.null, &plan.output, &plan.cgroup_to_join})
    fd->release();
  for (PreparedBind& bind : plan.binds) bind.tree.release();
  plan.cgroup.forget();
}

SpawnResult spawn_at(const Policy& policy, Tier tier, int channel_fd, const ForkHooks& hooks,
                     Cgroups* cgroups) {
  Plan plan = make_plan(policy, tier, channel_fd, cgroups);
  Pipe maps = make_pipe();
  Pipe report = make_pipe();
  hooks.before();
  Forked child;
  try {
    child = fork_worker(plan);
  } catch (...) {
    hooks.after_in_parent();
    throw;
  }
  if (child.pid == 0) {
    run_child(plan, maps, report);
    forget_descriptors(plan, maps, report);
    return {0, {}, {}, tier, ""};
  }
  hooks.after_in_parent();
  finish_in_parent(plan, child, maps, report);
  return {child.pid, std::move(child.pidfd), std::move(plan.output), tier, plan.cgroup.release()};
}

// Exhausted resources of a machine or of a limit on this process. They say nothing about a layer: using a
// weaker tier because of them would be a silent downgrade. ENOSPC of a clone means that user namespaces are
// forbidden.
bool is_exhaustion(const Failure& failure) {
  const int error = failure.error;
  return error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE || error == ETIMEDOUT ||
         error == ECHILD || (error == ENOSPC && !failure.operation.starts_with("clone3"));
}

}  // namespace

SpawnResult spawn(const Policy& policy, int channel_fd, const ForkHooks& hooks, Cgroups* cgroups) {
  policy.validate();
  require_single_thread();
  require_channel(channel_fd);
  std::string stronger;
  for (int level = static_cast<int>(policy.strongest_tier);; --level) {
    const Tier tier = static_cast<Tier>(level);
    try {
      return spawn_at(policy, tier, channel_fd, hooks, cgroups);
    } catch (Failure& failure) {
      if (is_exhaustion(failure)) throw;
      failure.message = stronger + "At the tier " + tier_name(tier) + ": " + failure.message;
      if (tier == policy.minimum_tier) throw;
      stronger = failure.message + " " + failure.remedy + " ";
    }
  }
}

}  // namespace warpsmith
