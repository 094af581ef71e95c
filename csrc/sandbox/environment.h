#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace warpsmith {

/// Where the kernel put this process's initial environment, which clearenv leaves in memory.
struct EnvironmentArea {
  char* start = nullptr;
  std::size_t size = 0;
};

/// Read from /proc/self/stat; empty if that is unreadable.
EnvironmentArea find_environment();

/// Replace the C environment by `variables` and overwrite the initial one, so that no inherited value remains
/// in memory.
void replace_environment(const EnvironmentArea& area, const std::map<std::string, std::string>& variables);

}  // namespace warpsmith
