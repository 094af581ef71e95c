#include "sandbox/landlock.h"

#include <elf.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "core/failure.h"
#include "core/unique_fd.h"
#include "sandbox/sys.h"

namespace warpsmith {

namespace {

constexpr const char* kLayer = "landlock";
constexpr const char* kRemedy =
    "Linux 5.13 or later with CONFIG_SECURITY_LANDLOCK is needed, and landlock in the kernel's lsm= list.";

constexpr std::uint64_t kRead = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr std::uint64_t kExecute = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE;
constexpr std::uint64_t kWriteFile = LANDLOCK_ACCESS_FS_WRITE_FILE | sys::kLandlockTruncate;
constexpr std::uint64_t kDevice =
    LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | sys::kLandlockIoctlDev;
constexpr std::uint64_t kWrite =
    kRead | kWriteFile | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
    LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |
    LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER;
// The rights that a rule on a non-directory can have.
constexpr std::uint64_t kOfFiles =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | kWriteFile | sys::kLandlockIoctlDev;

std::uint64_t known_file_accesses(int abi) {
  std::uint64_t known = (1ull << 13) - 1;
  if (abi >= 2) known |= LANDLOCK_ACCESS_FS_REFER;
  if (abi >= 3) known |= sys::kLandlockTruncate;
  if (abi >= 5) known |= sys::kLandlockIoctlDev;
  return known;
}

// One ruleset under construction.
class Ruleset {
 public:
  explicit Ruleset(int abi) : known_(known_file_accesses(abi)) {
    sys::LandlockRuleset attr{known_, abi >= 4 ? sys::kLandlockBindTcp | sys::kLandlockConnectTcp : 0,
                              abi >= 6 ? sys::kLandlockScopeAbstractUnix | sys::kLandlockScopeSignal : 0};
    const std::size_t size = abi >= 6   ? sizeof attr
                             : abi >= 4 ? 2 * sizeof(std::uint64_t)
                                        : sizeof(std::uint64_t);
    fd_.reset(sys::landlock_create_ruleset(&attr, size, 0));
    if (!fd_.valid()) throw system_failure(kLayer, "landlock_create_ruleset", errno, kRemedy);
  }

  void allow(const std::string& path, std::uint64_t accesses) {
    const UniqueFd target(::open(path.c_str(), O_PATH | O_CLOEXEC));
    if (!target.valid())
      throw system_failure(kLayer, "open " + path, errno, "Every path of the policy must exist.");
    struct stat status{};
    if (::fstat(target.get(), &status) != 0) throw system_failure(kLayer, "fstat " + path, errno);
    if (!S_ISDIR(status.st_mode)) accesses &= kOfFiles;
    landlock_path_beneath_attr rule{};
    rule.allowed_access = accesses & known_;
    rule.parent_fd = target.get();
    if (sys::landlock_add_rule(fd_.get(), LANDLOCK_RULE_PATH_BENEATH, &rule) != 0)
      throw system_failure(kLayer, "landlock_add_rule " + path, errno);
  }

  void enforce() const {
    if (sys::landlock_restrict_self(fd_.get()) != 0)
      throw system_failure(kLayer, "landlock_restrict_self", errno, kRemedy);
  }

 private:
  std::uint64_t known_;
  UniqueFd fd_;
};

void allow_programs(Ruleset& rules, const Policy& policy) {
  for (const std::string& program : policy.exec_paths) {
    rules.allow(program, kExecute);
    const std::string loader = elf_interpreter(program);
    if (!loader.empty()) rules.allow(loader, kExecute);
  }
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

bool is_link(const std::string& path) {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
}

bool is_device(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISCHR(status.st_mode);
}

void allow_bind(Ruleset& rules, const std::string& path, bool writable) {
  rules.allow(path, is_device(path) ? kDevice : writable ? kWrite : kRead);
}

// The root contains only what the policy binds, so reading needs no list of its own here.
void allow_own_root(Ruleset& rules, const Policy& policy) {
  rules.allow("/", kRead);
  rules.allow("/tmp", kWrite);
  rules.allow("/dev", kDevice);
  rules.allow("/dev/shm", kWrite);
  // CUDA opens its threads' names with O_TRUNC, and fails without this right.
  rules.allow("/proc", kRead | kWriteFile);
  for (const Bind& bind : policy.binds)
    if (!is_link(bind.target)) allow_bind(rules, bind.target, bind.writable);
}

// On the host's root: its own /proc entry, a few facts that libraries read, the devices, and the binds.
void allow_in_host_root(Ruleset& rules, const Policy& policy) {
  rules.allow("/proc/self", kRead | kWriteFile);
  for (const char* fact : {"/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/filesystems"})
    rules.allow(fact, kRead);
  for (const char* fact :
       {"/proc/devices", "/proc/modules", "/proc/driver/nvidia", "/proc/sys/vm/mmap_min_addr"})
    if (exists(fact)) rules.allow(fact, kRead);
  for (const char* device : {"/dev/null", "/dev/full", "/dev/random", "/dev/urandom"})
    rules.allow(device, kDevice);
  if (policy.shared_memory) rules.allow("/dev/zero", kDevice);
  if (!policy.scratch_path.empty()) rules.allow(policy.scratch_path, kWrite);
  for (const Bind& bind : policy.binds) allow_bind(rules, bind.source, bind.writable);
}

template <typename T>
bool read_at(int fd, T& into, std::uint64_t offset) {
  return ::pread(fd, &into, sizeof into, static_cast<off_t>(offset)) == static_cast<ssize_t>(sizeof into);
}

}  // namespace

int landlock_abi() {
  const int abi = sys::landlock_create_ruleset(nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return abi < 0 ? 0 : abi;
}

std::string elf_interpreter(const std::string& program) {
  const UniqueFd fd(::open(program.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid())
    throw system_failure(kLayer, "open " + program, errno, "Every exec path must be a readable program.");
  Elf64_Ehdr head{};
  if (!read_at(fd.get(), head, 0) ||
      std::string_view(reinterpret_cast<char*>(head.e_ident), SELFMAG) != ELFMAG)
    return {};
  for (unsigned i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr part{};
    if (!read_at(fd.get(), part, head.e_phoff + i * sizeof part)) return {};
    if (part.p_type != PT_INTERP || part.p_filesz == 0 || part.p_filesz > 4096) continue;
    std::string loader(part.p_filesz, '\0');
    if (::pread(fd.get(), loader.data(), loader.size(), static_cast<off_t>(part.p_offset)) < 0) return {};
    return loader.c_str();
  }
  return {};
}

void restrict_with_landlock(const Policy& policy, Tier tier) {
  const int abi = landlock_abi();
  if (abi == 0) throw system_failure(kLayer, "landlock_create_ruleset", errno, kRemedy);
  Ruleset rules(abi);
  if (tier == Tier::kNamespaces)
    allow_own_root(rules, policy);
  else
    allow_in_host_root(rules, policy);
  allow_programs(rules, policy);
  rules.enforce();
}

}  // namespace warpsmith
