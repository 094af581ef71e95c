#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace warpsmith {

/// How much of the containment is in force; ordered, weakest first.
enum class Tier { kNone = 0, kLandlock = 1, kNamespaces = 2 };

const char* tier_name(Tier tier);
/// Raises Failure for a name that is no tier.
Tier tier_from(const std::string& name);

/// One path of the host that a worker sees. Devices keep their device semantics, everything else is nodev.
struct Bind {
  std::string source;
  std::string target;
  bool writable = false;
};

/// What a worker may see and use.
struct Policy {
  std::vector<Bind> binds;
  std::vector<std::string> exec_paths;
  std::map<std::string, std::string> environment;
  std::string scratch_path;
  bool scratch_executable = false;
  bool shared_memory = false;
  /// Whether the worker's own entries under /proc are its own, for CUDA names its threads there. Nobody else
  /// may read them even so: Landlock and the filter see to that.
  bool dumpable = false;
  std::uint64_t scratch_bytes = 256ull << 20;
  std::uint64_t scratch_inodes = 4096;
  std::uint64_t memory_bytes = 4ull << 30;
  std::uint64_t address_space_bytes = 0;  ///< 0: without limit, as CUDA needs it
  std::uint64_t processes = 64;
  std::uint64_t open_files = 256;
  std::uint64_t file_bytes = 256ull << 20;
  std::uint64_t cpu_seconds = 300;
  std::uint64_t output_bytes = 64ull << 10;
  Tier strongest_tier = Tier::kNamespaces;
  Tier minimum_tier = Tier::kNamespaces;

  /// Raises Failure with the field that is wrong and what it should be.
  void validate() const;

  /// The worker's whole environment at `tier`: the given one, and TMPDIR where there is a scratch.
  std::map<std::string, std::string> worker_environment(Tier tier) const;

  /// Without programs to start a worker has no use for processes of its own, only for threads.
  bool may_fork() const { return !exec_paths.empty(); }
};

}  // namespace warpsmith
