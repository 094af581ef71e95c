#pragma once

#include <string>
#include <vector>

#include "sandbox/policy.h"

namespace warpsmith {

/// One containment layer on this machine.
struct Layer {
  std::string name;
  bool available = false;
  std::string detail;
  std::string remedy;
};

/// Try every layer in throw-away children of a throw-away child. Safe in a process with threads. Raises
/// Failure if that child cannot be made.
std::vector<Layer> probe_layers();

/// The strongest tier at which a worker really starts here.
Tier achievable_tier();

}  // namespace warpsmith
