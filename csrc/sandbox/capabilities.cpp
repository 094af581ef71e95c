#include "sandbox/capabilities.h"

#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "core/failure.h"

namespace warpsmith {

namespace {

constexpr const char* kLayer = "capabilities";
constexpr unsigned long kLockedBits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                                      SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                                      SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;

using CapabilitySets = std::array<__user_cap_data_struct, 2>;

CapabilitySets own_sets() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  CapabilitySets sets{};
  if (::syscall(SYS_capget, &header, sets.data()) != 0) throw system_failure(kLayer, "capget", errno);
  return sets;
}

void empty_bounding_set() {
  for (unsigned long capability = 0;; ++capability) {
    const int held = ::prctl(PR_CAPBSET_READ, capability, 0, 0, 0);
    if (held < 0) return;  // EINVAL: beyond the last capability of this kernel
    if (held == 1 && ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0)
      throw system_failure(kLayer, "PR_CAPBSET_DROP " + std::to_string(capability), errno);
  }
}

}  // namespace

void drop_capabilities() {
  if (own_sets()[0].effective & (1u << CAP_SETPCAP)) {
    empty_bounding_set();
    if (::prctl(PR_SET_SECUREBITS, kLockedBits, 0, 0, 0) != 0)
      throw system_failure(kLayer, "PR_SET_SECUREBITS", errno);
  }
  if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0)
    throw system_failure(kLayer, "PR_CAP_AMBIENT_CLEAR_ALL", errno);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  CapabilitySets none{};
  if (::syscall(SYS_capset, &header, none.data()) != 0) throw system_failure(kLayer, "capset", errno);
}

void set_no_new_privileges() {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    throw system_failure(kLayer, "PR_SET_NO_NEW_PRIVS", errno);
}

}  // namespace warpsmith
