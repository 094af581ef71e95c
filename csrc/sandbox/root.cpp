#include "sandbox/root.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>

#include "core/failure.h"
#include "sandbox/sys.h"

namespace warpsmith {

namespace {

constexpr const char* kLayer = "root filesystem";
constexpr const char* kHost = "/.host";
constexpr const char* kScratch = "/.scratch";
constexpr const char* kDevices[] = {"/dev/null", "/dev/full", "/dev/random", "/dev/urandom"};
// A shared mapping of this device is memory that no rlimit counts.
constexpr const char* kZero = "/dev/zero";

void check(int result, const std::string& operation, const std::string& remedy = "") {
  if (result < 0) throw system_failure(kLayer, operation, errno, remedy);
}

std::string read_link(const std::string& path) {
  std::array<char, PATH_MAX> text{};
  const ssize_t length = ::readlink(path.c_str(), text.data(), text.size());
  check(static_cast<int>(length), "readlink " + path);
  return {text.data(), static_cast<std::size_t>(length)};
}

void restrict_tree(int tree, const std::string& source, std::uint64_t attributes) {
  mount_attr attr{};
  attr.attr_set = attributes;
  attr.propagation = MS_PRIVATE;
  check(sys::mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr), "mount_setattr " + source,
        "Linux 5.12 or later is needed.");
}

PreparedBind prepare(const Bind& bind) {
  struct stat status{};
  check(::lstat(bind.source.c_str(), &status), "lstat " + bind.source,
        "Every bind's source must exist; correct or leave out this one.");
  if (S_ISLNK(status.st_mode)) return {bind.target, read_link(bind.source), UniqueFd(), false};
  const unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW;
  UniqueFd tree(sys::open_tree(AT_FDCWD, bind.source.c_str(), flags));
  check(tree.get(), "open_tree " + bind.source, "Linux 5.2 or later is needed.");
  const bool device = S_ISCHR(status.st_mode);
  restrict_tree(
      tree.get(), bind.source,
      MOUNT_ATTR_NOSUID | (device ? 0 : MOUNT_ATTR_NODEV) | (bind.writable ? 0 : MOUNT_ATTR_RDONLY));
  return {bind.target, "", std::move(tree), S_ISDIR(status.st_mode)};
}

bool exists(const std::string& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0;
}

void make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST)
    throw system_failure(kLayer, "mkdir " + path, errno);
}

void make_parents(const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != path.npos; slash = path.find('/', slash + 1))
    make_directory(path.substr(0, slash));
}

void make_mount_point(const PreparedBind& bind) {
  make_parents(bind.target);
  if (bind.directory) return make_directory(bind.target);
  if (exists(bind.target)) return;
  const UniqueFd file(::open(bind.target.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444));
  check(file.get(), "create " + bind.target);
}

void attach(const PreparedBind& bind) {
  if (!bind.link.empty()) {
    make_parents(bind.target);
    check(::symlink(bind.link.c_str(), bind.target.c_str()), "symlink " + bind.target);
    return;
  }
  make_mount_point(bind);
  check(sys::move_mount(bind.tree.get(), "", AT_FDCWD, bind.target.c_str(), MOVE_MOUNT_F_EMPTY_PATH),
        "move_mount " + bind.target);
}

// The new root is mounted over the host's /tmp until pivot_root: it needs some mount point.
void pivot_to_empty_root() {
  check(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "make / private");
  check(::mount("root", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=4m,nr_inodes=4096"),
        "mount tmpfs on /tmp");
  check(::chdir("/tmp"), "chdir /tmp");
  make_directory(kHost + 1);
  check(sys::pivot_root(".", kHost + 1), "pivot_root",
        "The root of this process must be a mount point other than the initial ramfs.");
  check(::chdir("/"), "chdir /");
}

// If a container hides parts of its /proc, the kernel denies a fresh one; the worker then has none, and so
// sees less, not more.
void mount_proc() {
  make_directory("/proc");
  if (::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0 && errno != EPERM)
    throw system_failure(kLayer, "mount proc", errno);
}

// /tmp and /dev/shm are two directories of one tmpfs, so that one limit bounds both.
void mount_scratch(const Policy& policy) {
  const unsigned long flags = MS_NOSUID | MS_NODEV | (policy.scratch_executable ? 0 : MS_NOEXEC);
  const std::string options = "mode=700,size=" + std::to_string(policy.scratch_bytes) +
                              ",nr_inodes=" + std::to_string(policy.scratch_inodes);
  make_directory(kScratch);
  check(::mount("scratch", kScratch, "tmpfs", flags, options.c_str()), "mount scratch");
  for (const auto& [part, target] :
       {std::pair{"/.scratch/tmp", "/tmp"}, std::pair{"/.scratch/shm", "/dev/shm"}}) {
    make_directory(part);
    make_parents(target);
    make_directory(target);
    check(::mount(part, target, nullptr, MS_BIND, nullptr), std::string("bind ") + target);
  }
  check(::umount2(kScratch, MNT_DETACH), "detach scratch");
  check(::rmdir(kScratch), "rmdir scratch");
}

void link_standard_streams() {
  static constexpr std::pair<const char*, const char*> kLinks[] = {{"/proc/self/fd", "/dev/fd"},
                                                                   {"/proc/self/fd/0", "/dev/stdin"},
                                                                   {"/proc/self/fd/1", "/dev/stdout"},
                                                                   {"/proc/self/fd/2", "/dev/stderr"}};
  for (const auto& [text, path] : kLinks) check(::symlink(text, path), std::string("symlink ") + path);
}

void leave_host() {
  check(::umount2(kHost, MNT_DETACH), "detach the host's root");
  check(::rmdir(kHost), "rmdir the host's root");
}

void seal_root() {
  mount_attr attr{};
  attr.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
  check(sys::mount_setattr(AT_FDCWD, "/", 0, &attr), "mount_setattr /");
}

}  // namespace

std::vector<PreparedBind> prepare_binds(const Policy& policy) {
  std::vector<PreparedBind> prepared;
  for (const char* device : kDevices) prepared.push_back(prepare({device, device, true}));
  if (policy.shared_memory) prepared.push_back(prepare({kZero, kZero, true}));
  for (const Bind& bind : policy.binds) prepared.push_back(prepare(bind));
  return prepared;
}

void enter_root(const Policy& policy, const std::vector<PreparedBind>& binds) {
  pivot_to_empty_root();
  mount_proc();
  mount_scratch(policy);
  for (const PreparedBind& bind : binds) attach(bind);
  link_standard_streams();
  leave_host();
  seal_root();
  check(::chdir("/tmp"), "chdir /tmp");
}

}  // namespace warpsmith
