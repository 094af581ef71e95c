#pragma once

#include <string>
#include <vector>

#include "sandbox/policy.h"

namespace warpsmith {

/// The version of the kernel's Landlock interface; 0 without Landlock.
int landlock_abi();

/// Confine this process's file access to the policy, deny all TCP, and confine signals and abstract sockets
/// to itself, as far as the kernel's ABI supports it. Needs no_new_privs. Raises Failure.
void restrict_with_landlock(const Policy& policy, Tier tier);

/// The dynamic loader that an ELF program names, if any. Raises Failure if the program cannot be read.
std::string elf_interpreter(const std::string& program);

}  // namespace warpsmith
