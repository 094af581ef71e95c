#include "sandbox/output.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "core/failure.h"

namespace warpsmith {

namespace {
constexpr const char* kLayer = "output";
}

UniqueFd make_output(std::uint64_t bytes) {
  UniqueFd fd(::memfd_create("output", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) throw system_failure(kLayer, "memfd_create", errno);
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) throw system_failure(kLayer, "ftruncate", errno);
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
    throw system_failure(kLayer, "F_ADD_SEALS", errno);
  return fd;
}

void redirect_standard_streams(int null_fd, int output_fd) {
  if (::dup2(null_fd, STDIN_FILENO) < 0 || ::dup2(output_fd, STDOUT_FILENO) < 0 ||
      ::dup2(output_fd, STDERR_FILENO) < 0)
    throw system_failure(kLayer, "dup2", errno);
}

}  // namespace warpsmith
