#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace warpsmith {

/// How much of the containment is in force; ordered, weakest first.
enum class Tier { kNone = 0, kLandlock = 1, kNamespaces = 2 };

const char* tier_name(Tier tier);
/// Raises Failure for an unknown name.
Tier tier_from(const std::string& name);

/// One host path that a worker sees. Devices keep their device semantics, everything else is nodev.
struct Bind {
  std::string source;
  std::string target;
  bool writable = false;
};

/// What a worker can see and use.
struct Policy {
  std::vector<Bind> binds;
  std::vector<std::string> exec_paths;
  std::map<std::string, std::string> environment;
  std::string scratch_path;
  bool scratch_executable = false;
  bool shared_memory = false;
  /// Whether the worker owns its entries under /proc, which CUDA needs to name its threads. Landlock and the
  /// filter still keep others from reading them.
  bool dumpable = false;
  std::uint64_t scratch_bytes = 256ull << 20;
  std::uint64_t scratch_inodes = 4096;
  std::uint64_t memory_bytes = 4ull << 30;
  std::uint64_t data_bytes = 0;           ///< what may be mapped but not all used; 0: memory_bytes
  std::uint64_t address_space_bytes = 0;  ///< 0: no limit, as CUDA needs it
  std::uint64_t processes = 64;
  std::uint64_t open_files = 256;
  std::uint64_t file_bytes = 256ull << 20;
  std::uint64_t cpu_seconds = 300;
  std::uint64_t output_bytes = 64ull << 10;
  Tier strongest_tier = Tier::kNamespaces;
  Tier minimum_tier = Tier::kNamespaces;

  /// Raises Failure with the invalid field and what was expected.
  void validate() const;

  /// The worker's whole environment at `tier`: the policy's, and TMPDIR if there is a scratch.
  std::map<std::string, std::string> worker_environment(Tier tier) const;

  /// Without programs to start, a worker needs no processes of its own, only threads.
  bool may_fork() const { return !exec_paths.empty(); }
};

}  // namespace warpsmith
