// Checks of the plain C++ tests: a failed check prints its place and ends the program.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "core/failure.h"

#define CHECK(condition)                                                                 \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                      \
    }                                                                                    \
  } while (false)

namespace warpsmith {

/// The failure that `act` throws, or nothing.
template <typename Act>
std::optional<Failure> failure_of(Act act) {
  try {
    act();
  } catch (const Failure& failure) {
    return failure;
  }
  return std::nullopt;
}

/// Whether `act` throws a failure of this kind in this operation.
template <typename Act>
bool fails(FailureKind kind, const std::string& operation, Act act) {
  const auto failure = failure_of(act);
  return failure && failure->kind == kind && failure->operation == operation;
}

}  // namespace warpsmith
