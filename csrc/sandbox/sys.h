// System calls and constants that older C libraries do not define. Each returns like the system call: -1 and
// errno on failure.
#pragma once

#include <linux/mount.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace warpsmith::sys {

inline constexpr std::uint64_t kLandlockTruncate = 1ull << 14;
inline constexpr std::uint64_t kLandlockIoctlDev = 1ull << 15;
inline constexpr std::uint64_t kLandlockBindTcp = 1ull << 0;
inline constexpr std::uint64_t kLandlockConnectTcp = 1ull << 1;
inline constexpr std::uint64_t kLandlockScopeAbstractUnix = 1ull << 0;
inline constexpr std::uint64_t kLandlockScopeSignal = 1ull << 1;

/// landlock_ruleset_attr of ABI 6; older kernels accept its prefix.
struct LandlockRuleset {
  std::uint64_t handled_access_fs = 0;
  std::uint64_t handled_access_net = 0;
  std::uint64_t scoped = 0;
};

inline int clone3(clone_args* args, std::size_t size) {
  return static_cast<int>(::syscall(SYS_clone3, args, size));
}
inline int open_tree(int dir, const char* path, unsigned flags) {
  return static_cast<int>(::syscall(SYS_open_tree, dir, path, flags));
}
inline int move_mount(int from, const char* from_path, int to, const char* to_path, unsigned flags) {
  return static_cast<int>(::syscall(SYS_move_mount, from, from_path, to, to_path, flags));
}
inline int mount_setattr(int dir, const char* path, unsigned flags, mount_attr* attr) {
  return static_cast<int>(::syscall(SYS_mount_setattr, dir, path, flags, attr, sizeof *attr));
}
inline int pivot_root(const char* new_root, const char* put_old) {
  return static_cast<int>(::syscall(SYS_pivot_root, new_root, put_old));
}
inline int close_range(unsigned first, unsigned last, unsigned flags) {
  return static_cast<int>(::syscall(SYS_close_range, first, last, flags));
}
inline int pidfd_open(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }
inline int pidfd_send_signal(int pidfd, int signal, unsigned flags) {
  return static_cast<int>(::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, flags));
}
inline int landlock_create_ruleset(const void* attr, std::size_t size, std::uint32_t flags) {
  return static_cast<int>(::syscall(SYS_landlock_create_ruleset, attr, size, flags));
}
inline int landlock_add_rule(int ruleset, int type, const void* rule) {
  return static_cast<int>(::syscall(SYS_landlock_add_rule, ruleset, type, rule, 0));
}
inline int landlock_restrict_self(int ruleset) {
  return static_cast<int>(::syscall(SYS_landlock_restrict_self, ruleset, 0));
}

}  // namespace warpsmith::sys
