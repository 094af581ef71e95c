#include "sandbox/identity.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <string>

#include "core/failure.h"
#include "core/text.h"
#include "core/unique_fd.h"

namespace warpsmith {

namespace {

constexpr const char* kLayer = "identity";

std::uint64_t effective_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> data{};
  if (::syscall(SYS_capget, &header, data.data()) != 0) throw system_failure(kLayer, "capget", errno);
  return data[0].effective | (static_cast<std::uint64_t>(data[1].effective) << 32);
}

bool may_map_any_id() {
  const std::uint64_t wanted = (1ull << CAP_SETUID) | (1ull << CAP_SETGID) | (1ull << CAP_SYS_ADMIN);
  return ::geteuid() == 0 && (effective_capabilities() & wanted) == wanted;
}

// Inside a container only some ids exist; others cannot be mapped again.
bool id_exists(const char* map, unsigned long id) {
  const std::string text = read_text(map).value_or("");
  for (const std::string_view line : split(text, '\n')) {
    const auto fields = words(line);
    if (fields.size() != 3) continue;
    const auto first = to_number(fields[0]), count = to_number(fields[2]);
    if (first && count && id >= *first && id - *first < *count) return true;
  }
  return false;
}

// A user namespace made without privilege has disabled setgroups, and so have those inside it.
bool setgroups_allowed() { return read_text("/proc/self/setgroups").value_or("").starts_with("allow"); }

void write_file(const std::string& path, const std::string& text) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid()) throw system_failure(kLayer, "open " + path, errno);
  if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw system_failure(kLayer, "write " + path, errno);
}

std::string map_line(unsigned outer) {
  return std::to_string(kInnerId) + " " + std::to_string(outer) + " 1\n";
}

}  // namespace

Identity choose_identity() {
  const bool privileged = may_map_any_id();
  Identity identity{privileged, privileged && setgroups_allowed(), ::geteuid(), ::getegid()};
  if (identity.privileged && id_exists("/proc/self/uid_map", kUnprivilegedId) &&
      id_exists("/proc/self/gid_map", kUnprivilegedId)) {
    identity.outer_uid = kUnprivilegedId;
    identity.outer_gid = kUnprivilegedId;
  }
  return identity;
}

void write_id_maps(pid_t pid, const Identity& identity) {
  const std::string base = "/proc/" + std::to_string(pid);
  // An unprivileged caller can write a gid map only after disabling setgroups.
  if (!identity.may_set_groups) write_file(base + "/setgroups", "deny");
  write_file(base + "/uid_map", map_line(identity.outer_uid));
  write_file(base + "/gid_map", map_line(identity.outer_gid));
}

void become_mapped_id(const Identity& identity) {
  if (identity.may_set_groups && ::setgroups(0, nullptr) != 0)
    throw system_failure(kLayer, "setgroups", errno);
  if (::setresgid(kInnerId, kInnerId, kInnerId) != 0) throw system_failure(kLayer, "setresgid", errno);
  if (::setresuid(kInnerId, kInnerId, kInnerId) != 0) throw system_failure(kLayer, "setresuid", errno);
}

void leave_root(const Identity& identity) {
  if (!identity.privileged) return;
  if (identity.may_set_groups && ::setgroups(0, nullptr) != 0)
    throw system_failure(kLayer, "setgroups", errno);
  if (::setresgid(identity.outer_gid, identity.outer_gid, identity.outer_gid) != 0)
    throw system_failure(kLayer, "setresgid", errno);
  if (::setresuid(identity.outer_uid, identity.outer_uid, identity.outer_uid) != 0)
    throw system_failure(kLayer, "setresuid", errno);
}

}  // namespace warpsmith
