#include "sandbox/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>

#include "core/deadline.h"
#include "core/failure.h"
#include "core/text.h"

namespace warpsmith {

namespace {

constexpr const char* kLayer = "cgroup";
constexpr const char* kWanted[] = {"memory", "pids"};
constexpr const char* kOwnerPrefix = "warpsmith-workers-";
constexpr const char* kMovedTo = "warpsmith-main";
constexpr const char* kTopDirectory = "warpsmith";
constexpr int kAttempts = 16;
constexpr double kKillPatienceSeconds = 5;

constexpr const char* kNoHierarchy =
    "Boot with cgroup v2 alone (systemd.unified_cgroup_hierarchy=1, or cgroup_no_v1=all) and mount it at "
    "/sys/fs/cgroup.";
constexpr const char* kDelegate =
    "Start the evaluator in a delegated cgroup: systemd-run --user --scope -p Delegate=yes COMMAND (as root "
    "without --user), or Delegate=yes in its unit; in a container: a writable /sys/fs/cgroup and a cgroup "
    "namespace of its own (docker run --cgroupns=private --privileged).";

bool is_there(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }
bool is_writable(const std::string& path) { return ::access(path.c_str(), W_OK) == 0; }

void write_control(const std::string& path, std::string_view text) {
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid()) throw system_failure(kLayer, "open " + path, errno, kDelegate);
  if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw system_failure(kLayer, "write " + std::string(text) + " to " + path, errno, kDelegate);
}

std::vector<std::string> words_of(const std::string& path) {
  const std::string text = read_text(path).value_or("");
  const auto found = words(text);
  return {found.begin(), found.end()};
}

bool has(const std::vector<std::string>& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

std::vector<std::string> wanted_among(const std::vector<std::string>& list) {
  std::vector<std::string> found;
  for (const char* name : kWanted)
    if (has(list, name)) found.emplace_back(name);
  return found;
}

// --- this process's place in the hierarchy ---

struct Own {
  std::string top;        // mount point of the visible part of the hierarchy
  std::string directory;  // this process's cgroup below it
};

// The cgroup2 mount: its mount point, and the cgroup that it shows there.
std::optional<std::pair<std::string, std::string>> find_mount() {
  constexpr std::size_t kRoot = 3, kPoint = 4;
  const std::string text = read_text("/proc/self/mountinfo").value_or("");
  for (const std::string_view line : split(text, '\n')) {
    const auto fields = words(line);
    const auto dash = std::ranges::find(fields, "-");
    if (dash == fields.end() || dash + 1 == fields.end() || *(dash + 1) != "cgroup2") continue;
    if (fields.size() > kPoint) return std::pair(std::string(fields[kPoint]), std::string(fields[kRoot]));
  }
  return std::nullopt;
}

std::string own_path() {
  const std::string text = read_text("/proc/self/cgroup").value_or("");
  for (const std::string_view line : split(text, '\n'))
    if (line.starts_with("0::")) return std::string(line.substr(3));
  return "";
}

Own find_own() {
  const auto mount = find_mount();
  const std::string path = own_path();
  if (!mount || path.empty())
    throw Failure(FailureKind::kNative, kLayer, "find", ENOENT, "No cgroup v2 hierarchy is mounted.",
                  kNoHierarchy);
  const auto& [point, root] = *mount;
  const std::string shown = root == "/" ? "" : root;
  if (!path.starts_with(shown) || path.find("/..") != path.npos)
    throw Failure(FailureKind::kNative, kLayer, "find", ENOENT,
                  "This process's cgroup " + path + " is not below what is mounted at " + point + ".",
                  kDelegate);
  const std::string below = path.substr(shown.size());
  return {point, below.empty() || below == "/" ? point : point + below};
}

// The hierarchy's true root has no type; the root of a cgroup namespace has one.
bool is_true_root(const std::string& directory) { return !is_there(directory + "/cgroup.type"); }

// systemd marks what it delegates; the root of a cgroup namespace was delegated by the namespace's maker.
bool is_delegated(const Own& own, const std::string& directory) {
  if (directory == own.top) return !is_true_root(directory);
  std::array<char, 4> value{};
  for (const char* mark : {"user.delegate", "trusted.delegate"})
    if (::getxattr(directory.c_str(), mark, value.data(), value.size()) == 1 && value[0] == '1') return true;
  return false;
}

bool may_divide(const std::string& directory) {
  return is_writable(directory) && is_writable(directory + "/cgroup.procs") &&
         is_writable(directory + "/cgroup.subtree_control");
}

std::string parent_of(const std::string& directory) { return directory.substr(0, directory.rfind('/')); }

// Our own cgroup is a child of a delegated one that already enables controllers: another process moved us
// there.
std::optional<CgroupPlace> beside_us(const Own& own) {
  if (own.directory == own.top) return std::nullopt;
  const std::string parent = parent_of(own.directory);
  auto given = wanted_among(words_of(parent + "/cgroup.subtree_control"));
  if (given.empty() || is_true_root(parent) || !is_delegated(own, parent) || !may_divide(parent))
    return std::nullopt;
  return CgroupPlace{parent, std::move(given), CgroupPlace::Need::kNothing};
}

std::optional<CgroupPlace> below_us(const Own& own) {
  auto given = wanted_among(words_of(own.directory + "/cgroup.controllers"));
  if (given.empty() || !is_delegated(own, own.directory) || !may_divide(own.directory)) return std::nullopt;
  return CgroupPlace{own.directory, std::move(given), CgroupPlace::Need::kVacate};
}

// The host's root can have a directory of its own at the top, as container engines do.
std::optional<CgroupPlace> at_the_top(const Own& own) {
  auto given = wanted_among(words_of(own.top + "/cgroup.controllers"));
  if (given.empty() || !is_true_root(own.top) || !may_divide(own.top)) return std::nullopt;
  return CgroupPlace{own.top + "/" + kTopDirectory, std::move(given), CgroupPlace::Need::kMake};
}

[[noreturn]] void refuse(const Own& own) {
  const std::string& directory = own.directory;
  if (wanted_among(words_of(directory + "/cgroup.controllers")).empty())
    throw Failure(FailureKind::kNative, kLayer, "controllers", ENOENT,
                  "Neither the memory nor the pids controller is given to " + directory + ".",
                  is_true_root(directory) ? kNoHierarchy : kDelegate);
  if (!may_divide(directory))
    throw Failure(FailureKind::kNative, kLayer, "write", EACCES, directory + " is not writable.", kDelegate);
  throw Failure(FailureKind::kNative, kLayer, "delegation", EPERM,
                directory + " is not delegated to this process.", kDelegate);
}

// --- making room ---

void make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST)
    throw system_failure(kLayer, "mkdir " + path, errno, kDelegate);
}

void enable(const std::string& directory, const std::vector<std::string>& controllers) {
  const auto enabled = words_of(directory + "/cgroup.subtree_control");
  for (const std::string& name : controllers)
    if (!has(enabled, name)) write_control(directory + "/cgroup.subtree_control", "+" + name);
}

void move_processes(const std::string& from, const std::string& to) {
  for (const std::string& pid : words_of(from + "/cgroup.procs")) {
    const UniqueFd fd(::open((to + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
    if (!fd.valid()) throw system_failure(kLayer, "open " + to + "/cgroup.procs", errno, kDelegate);
    // A process may have ended since it was listed.
    if (::write(fd.get(), pid.data(), pid.size()) < 0 && errno != ESRCH)
      throw system_failure(kLayer, "move process " + pid + " to " + to, errno, kDelegate);
  }
}

// Cgroup v2 enables controllers for children only in a cgroup without processes. New ones may be forked while
// others are moved.
void vacate(const CgroupPlace& place) {
  const std::string to = place.directory + "/" + kMovedTo;
  make_directory(to);
  for (int attempt = 1;; ++attempt) {
    move_processes(place.directory, to);
    try {
      return enable(place.directory, place.controllers);
    } catch (const Failure& failure) {
      if (failure.error != EBUSY || attempt == kAttempts) throw;
    }
  }
}

void prepare(const CgroupPlace& place) {
  if (place.need == CgroupPlace::Need::kVacate) vacate(place);
  if (place.need != CgroupPlace::Need::kMake) return;
  enable(parent_of(place.directory), place.controllers);
  make_directory(place.directory);
  enable(place.directory, place.controllers);
}

// --- removing ---

std::vector<std::string> directories_in(const std::string& path) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(path.c_str()), ::closedir);
  if (!listing) return names;
  while (const dirent* entry = ::readdir(listing.get()))
    if (entry->d_type == DT_DIR && entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  return names;
}

bool is_populated(int events_fd) {
  std::array<char, 256> text{};
  const ssize_t got = ::pread(events_fd, text.data(), text.size(), 0);
  return got > 0 && std::string_view(text.data(), static_cast<std::size_t>(got)).find("populated 1") !=
                        std::string_view::npos;
}

// Before Linux 5.14 there is no cgroup.kill; processes that outlived the worker then have to end on their
// own.
void kill_all(const std::string& path) {
  const std::string control = path + "/cgroup.kill";
  if (is_there(control)) write_control(control, "1");
  const UniqueFd events(::open((path + "/cgroup.events").c_str(), O_RDONLY | O_CLOEXEC));
  const Deadline deadline = Deadline::after(kKillPatienceSeconds);
  while (events.valid() && is_populated(events.get()))
    if (!wait_ready(events.get(), POLLPRI, deadline, kLayer, {})) return;
}

void remove_directory(const std::string& path) {
  if (::rmdir(path.c_str()) == 0 || errno == ENOENT) return;
  if (errno == EBUSY) {
    kill_all(path);
    if (::rmdir(path.c_str()) == 0 || errno == ENOENT) return;
  }
  throw system_failure(kLayer, "rmdir " + path, errno);
}

void remove_tree(const std::string& path) {
  for (const std::string& name : directories_in(path)) remove_directory(path + "/" + name);
  remove_directory(path);
}

std::uint64_t event(const std::string& text, std::string_view name) {
  for (const std::string_view line : split(text, '\n')) {
    const auto fields = words(line);
    if (fields.size() == 2 && fields[0] == name) return to_number(fields[1]).value_or(0);
  }
  return 0;
}

// --- owners ---

std::string random_name() {
  std::uint64_t value = 0;
  if (::getrandom(&value, sizeof value, 0) != sizeof value) throw system_failure(kLayer, "getrandom", errno);
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return kOwnerPrefix + std::string(text.data());
}

// The lock on a directory, or nothing if its owner lives.
UniqueFd try_lock(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.valid() && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) fd.reset();
  return fd;
}

// A dead owner holds no lock. A directory that another sweeper removes meanwhile is gone as well.
void sweep(const std::string& directory) {
  for (const std::string& name : directories_in(directory)) {
    if (!name.starts_with(kOwnerPrefix)) continue;
    const UniqueFd lock = try_lock(directory + "/" + name);
    if (lock.valid()) remove_tree(directory + "/" + name);
  }
}

// ENOENT of a cgroup that was removed before its lookup, or between that and its use. Enabling a controller
// fails in the same way if the parent was recreated and does not enable it yet.
bool is_gone(int error) { return error == ENOENT || error == ENODEV; }

std::pair<std::string, UniqueFd> try_make_owner(const CgroupPlace& place) {
  prepare(place);
  const std::string path = place.directory + "/" + random_name();
  if (::mkdir(path.c_str(), 0755) != 0) throw system_failure(kLayer, "mkdir " + path, errno, kDelegate);
  UniqueFd lock = try_lock(path);
  // A sweeper removed it between its creation and the locking.
  if (!lock.valid() || !is_there(path)) throw system_failure(kLayer, "lock " + path, ENOENT, kDelegate);
  enable(path, place.controllers);
  return {path, std::move(lock)};
}

// Between any two steps the last of other processes can remove the directory at the top. Leftovers of an
// attempt are swept.
std::pair<std::string, UniqueFd> make_owner(const CgroupPlace& place) {
  for (int attempt = 1;; ++attempt) {
    try {
      return try_make_owner(place);
    } catch (const Failure& failure) {
      if (!is_gone(failure.error) || attempt == kAttempts) throw;
    }
  }
}

void limit_memory(const std::string& path, std::uint64_t bytes) {
  write_control(path + "/memory.max", std::to_string(bytes));
  write_control(path + "/memory.oom.group", "1");
  // A kernel without swap has no such file, and nothing to limit.
  if (is_there(path + "/memory.swap.max")) write_control(path + "/memory.swap.max", "0");
}

}  // namespace

CgroupPlace find_cgroup_place() {
  const Own own = find_own();
  for (const auto& look : {beside_us, below_us, at_the_top})
    if (auto place = look(own)) return *place;
  refuse(own);
}

CgroupLeaf::CgroupLeaf(std::string parent, std::string name, UniqueFd directory)
    : parent_(std::move(parent)), name_(std::move(name)), directory_(std::move(directory)) {}

CgroupLeaf::CgroupLeaf(CgroupLeaf&& other) noexcept
    : parent_(std::move(other.parent_)),
      name_(std::exchange(other.name_, "")),
      directory_(std::move(other.directory_)) {}

CgroupLeaf& CgroupLeaf::operator=(CgroupLeaf&& other) noexcept {
  std::swap(parent_, other.parent_);
  std::swap(name_, other.name_);
  std::swap(directory_, other.directory_);
  return *this;
}

// Reached only if a spawn failed, after its child was reaped; a directory that cannot be removed is swept
// later.
CgroupLeaf::~CgroupLeaf() {
  if (!name_.empty()) ::rmdir((parent_ + "/" + name_).c_str());
}

UniqueFd CgroupLeaf::open_processes() const {
  UniqueFd fd(::openat(directory_.get(), "cgroup.procs", O_WRONLY | O_CLOEXEC));
  if (!fd.valid()) throw system_failure(kLayer, "open " + parent_ + "/" + name_ + "/cgroup.procs", errno);
  return fd;
}

std::string CgroupLeaf::release() {
  directory_.reset();
  return std::exchange(name_, "");
}

void CgroupLeaf::forget() {
  directory_.release();
  name_.clear();
}

Cgroups::Cgroups(std::string path, UniqueFd lock, std::vector<std::string> controllers)
    : path_(std::move(path)), lock_(std::move(lock)), controllers_(std::move(controllers)) {}

Cgroups Cgroups::open() {
  const CgroupPlace place = find_cgroup_place();
  auto [path, lock] = make_owner(place);
  Cgroups made(std::move(path), std::move(lock), place.controllers);
  sweep(place.directory);
  return made;
}

// If a process forgets to close, the next sweep removes its directory.
Cgroups::~Cgroups() = default;

CgroupLeaf Cgroups::make_leaf(const Policy& policy, std::uint64_t inherited_bytes) {
  const std::string name = "worker-" + std::to_string(++made_);
  const std::string path = path_ + "/" + name;
  if (::mkdir(path.c_str(), 0755) != 0) throw system_failure(kLayer, "mkdir " + path, errno);
  CgroupLeaf leaf(path_, name, UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  if (!leaf.exists()) throw system_failure(kLayer, "open " + path, errno);
  if (has(controllers_, "memory"))
    limit_memory(path, inherited_bytes + policy.memory_bytes + policy.scratch_bytes + policy.output_bytes);
  if (has(controllers_, "pids")) write_control(path + "/pids.max", std::to_string(policy.processes));
  return leaf;
}

CgroupEvents Cgroups::remove(const std::string& name) {
  const std::string path = path_ + "/" + name;
  const std::string events = read_text(path + "/memory.events").value_or("");
  remove_directory(path);
  return {event(events, "oom"), event(events, "oom_kill")};
}

void Cgroups::close() {
  if (!lock_.valid()) return;
  remove_tree(path_);
  lock_.reset();
  const std::string above = parent_of(path_);
  // Removed by the last user; it stays while others are in it.
  if (above.ends_with(std::string("/") + kTopDirectory)) ::rmdir(above.c_str());
}

void join_cgroup(int fd) {
  if (::write(fd, "0", 1) != 1) throw system_failure(kLayer, "join", errno);
}

}  // namespace warpsmith
