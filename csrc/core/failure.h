#pragma once

#include <cstring>
#include <exception>
#include <string>
#include <utility>

namespace warpsmith {

/// The typed Python error that a failure becomes.
enum class FailureKind { kNative, kFrame, kPeerClosed, kDeadline };

/// What failed: the layer, the operation, its errno (0 if no system call failed), and the remedy.
class Failure : public std::exception {
 public:
  Failure(FailureKind kind, std::string layer, std::string operation, int error, std::string message,
          std::string remedy = "")
      : kind(kind),
        layer(std::move(layer)),
        operation(std::move(operation)),
        error(error),
        message(std::move(message)),
        remedy(std::move(remedy)) {}

  const char* what() const noexcept override { return message.c_str(); }

  FailureKind kind;
  std::string layer;
  std::string operation;
  int error;
  std::string message;
  std::string remedy;
};

/// The failure of a system call: the message is composed from the layer, the operation and errno.
inline Failure system_failure(const std::string& layer, const std::string& operation, int error,
                              std::string remedy = "") {
  std::string message = layer + ": " + operation + " failed: " + std::strerror(error) + " (errno " +
                        std::to_string(error) + ").";
  return Failure(FailureKind::kNative, layer, operation, error, std::move(message), std::move(remedy));
}

}  // namespace warpsmith
