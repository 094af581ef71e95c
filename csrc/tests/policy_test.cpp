// What a policy accepts, and the resulting environment of a worker.

#include "sandbox/policy.h"

#include "check.h"
#include "sandbox/landlock.h"

namespace warpsmith {
namespace {

bool refuses(const std::string& field, const Policy& policy) {
  return fails(FailureKind::kNative, field, [&] { policy.validate(); });
}

void test_paths() {
  Policy policy;
  CHECK(!failure_of([&] { policy.validate(); }));
  for (const char* path : {"", "/", "x", "x/y", "/x/", "/x//y", "/./x", "/x/.", "/x/..", "/../x"}) {
    policy.binds = {{"/usr", path}};
    CHECK(refuses("binds", policy));
    policy.binds = {{path, "/usr"}};
    CHECK(refuses("binds", policy));
  }
  for (const char* path : {"/x", "/x/y", "/...", "/x/..y/.z"}) {
    policy.binds = {{path, path}};
    CHECK(!failure_of([&] { policy.validate(); }));
  }
  policy.binds = {{std::string("/x\0y", 4), "/x"}};
  CHECK(refuses("binds", policy));
  for (const char* own : {"/proc", "/tmp", "/dev", "/dev/shm"}) {
    policy.binds = {{"/usr", own}};
    CHECK(refuses("binds", policy));
  }
}

void test_tiers() {
  for (const char* name : {"none", "landlock", "namespaces"})
    CHECK(std::string(tier_name(tier_from(name))) == name);
  CHECK(fails(FailureKind::kNative, "tier", [] { tier_from("strong"); }));
  Policy policy;
  policy.strongest_tier = Tier::kLandlock;
  CHECK(refuses("strongest_tier", policy));
  policy.minimum_tier = Tier::kLandlock;
  CHECK(!failure_of([&] { policy.validate(); }));
}

void test_environment() {
  Policy policy;
  policy.environment = {{"A", "b"}};
  CHECK(policy.worker_environment(Tier::kNamespaces).at("TMPDIR") == "/tmp");
  CHECK(!policy.worker_environment(Tier::kLandlock).contains("TMPDIR"));
  policy.scratch_path = "/scratch";
  CHECK(policy.worker_environment(Tier::kLandlock).at("TMPDIR") == "/scratch");
  policy.environment["TMPDIR"] = "/given";
  CHECK(policy.worker_environment(Tier::kNamespaces).at("TMPDIR") == "/given");
}

void test_interpreters() {
  CHECK(elf_interpreter("/proc/self/exe").find("ld") != std::string::npos);
  CHECK(elf_interpreter("/proc/self/status").empty());
  CHECK(failure_of([] { elf_interpreter("/no/such/program"); }).has_value());
}

}  // namespace
}  // namespace warpsmith

int main() {
  warpsmith::test_paths();
  warpsmith::test_tiers();
  warpsmith::test_environment();
  warpsmith::test_interpreters();
}
