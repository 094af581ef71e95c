#include "sandbox/environment.h"

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "core/failure.h"
#include "core/text.h"

namespace warpsmith {

namespace {
// Fields of /proc/<pid>/stat count from 1; the program's name, which can contain anything, ends at the last
// ')'.
constexpr int kFirstAfterName = 3;
constexpr int kEnvironmentStart = 50;
}  // namespace

EnvironmentArea find_environment() {
  const std::string text = read_text("/proc/self/stat").value_or("");
  const std::size_t name_end = text.rfind(')');
  if (name_end == text.npos) return {};
  const auto fields = words(std::string_view(text).substr(name_end + 1));
  constexpr std::size_t kStart = kEnvironmentStart - kFirstAfterName;
  if (fields.size() <= kStart + 1) return {};
  const auto start = to_number(fields[kStart]), end = to_number(fields[kStart + 1]);
  if (!start || !end || *start == 0 || *end <= *start) return {};
  return {reinterpret_cast<char*>(*start), *end - *start};
}

void replace_environment(const EnvironmentArea& area, const std::map<std::string, std::string>& variables) {
  // Values set since the start are on the heap; each is overwritten while `environ` still points to it.
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    std::memset(*entry, 0, std::strlen(*entry));
  ::clearenv();
  if (area.start != nullptr) std::memset(area.start, 0, area.size);
  for (const auto& [name, value] : variables)
    if (::setenv(name.c_str(), value.c_str(), 1) != 0)
      throw system_failure("environment", "setenv " + name, errno);
}

}  // namespace warpsmith
