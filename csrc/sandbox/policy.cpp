#include "sandbox/policy.h"

#include <algorithm>
#include <cerrno>
#include <set>
#include <string_view>

#include "core/failure.h"

namespace warpsmith {

namespace {

[[noreturn]] void refuse(const std::string& field, const std::string& message) {
  throw Failure(FailureKind::kNative, "policy", field, EINVAL, message);
}

// Absolute, with no empty, `.` or `..` part and no NUL, so that the path can be interpreted without a lookup.
bool is_plain_path(std::string_view path) {
  if (path.size() < 2 || path.front() != '/' || path.back() == '/' || path.find('\0') != path.npos)
    return false;
  for (std::size_t at = 1; at <= path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    if (part.empty() || part == "." || part == "..") return false;
    at = end + 1;
  }
  return true;
}

void check_path(const std::string& field, const std::string& path) {
  if (!is_plain_path(path))
    refuse(field,
           "'" + path + "' must be an absolute path below / without '.', '..', '//' or a trailing slash.");
}

void check_positive(const std::string& field, std::uint64_t value) {
  if (value == 0) refuse(field, field + " must be 1 or more.");
}

void check_binds(const std::vector<Bind>& binds) {
  static constexpr std::string_view kOwnTargets[] = {"/proc", "/tmp", "/dev", "/dev/shm", "/.host"};
  std::set<std::string_view> targets;
  for (const Bind& bind : binds) {
    check_path("binds", bind.source);
    check_path("binds", bind.target);
    if (!targets.insert(bind.target).second)
      refuse("binds", "Two binds have the target '" + bind.target + "'.");
    if (std::ranges::find(kOwnTargets, bind.target) != std::end(kOwnTargets))
      refuse("binds", "The target '" + bind.target + "' is made by the sandbox itself; choose another.");
  }
}

void check_environment(const std::map<std::string, std::string>& environment) {
  for (const auto& [name, value] : environment)
    if (name.empty() || name.find('=') != name.npos || (name + value).find('\0') != std::string::npos)
      refuse("environment",
             "The variable '" + name + "' has an empty name, an '=' in its name or a NUL byte.");
}

}  // namespace

const char* tier_name(Tier tier) {
  switch (tier) {
    case Tier::kNamespaces:
      return "namespaces";
    case Tier::kLandlock:
      return "landlock";
    case Tier::kNone:
      break;
  }
  return "none";
}

Tier tier_from(const std::string& name) {
  for (const Tier tier : {Tier::kNone, Tier::kLandlock, Tier::kNamespaces})
    if (name == tier_name(tier)) return tier;
  refuse("tier", "'" + name + "' is no tier: choose namespaces, landlock or none.");
}

void Policy::validate() const {
  check_binds(binds);
  for (const std::string& path : exec_paths) check_path("exec_paths", path);
  check_environment(environment);
  if (!scratch_path.empty()) check_path("scratch_path", scratch_path);
  check_positive("scratch_bytes", scratch_bytes);
  check_positive("scratch_inodes", scratch_inodes);
  check_positive("memory_bytes", memory_bytes);
  check_positive("processes", processes);
  check_positive("file_bytes", file_bytes);
  check_positive("cpu_seconds", cpu_seconds);
  check_positive("output_bytes", output_bytes);
  if (open_files < 16) refuse("open_files", "open_files must be 16 or more.");
  if (strongest_tier < minimum_tier)
    refuse("strongest_tier", "strongest_tier must not be weaker than minimum_tier.");
}

std::map<std::string, std::string> Policy::worker_environment(Tier tier) const {
  std::map<std::string, std::string> variables = environment;
  const std::string scratch = tier == Tier::kNamespaces ? "/tmp" : scratch_path;
  if (!scratch.empty()) variables.try_emplace("TMPDIR", scratch);
  return variables;
}

}  // namespace warpsmith
