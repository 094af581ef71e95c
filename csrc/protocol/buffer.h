#pragma once

#include <cstddef>
#include <string>

#include "core/unique_fd.h"

namespace warpsmith {

/// A sealed memfd mapped into this process. The mapping lives as long as the object.
class Buffer {
 public:
  /// Make `size` bytes of zeroes, mapped writable here and then sealed. A receiver of the descriptor can map
  /// it writable only if `writable_by_peer`. Raises Failure.
  static Buffer create(const std::string& name, std::size_t size, bool writable_by_peer);

  /// Map a received descriptor, which must be a memfd sealed against resizing, of exactly `size` bytes. The
  /// descriptor is duplicated. Raises Failure.
  static Buffer map(int fd, std::size_t size, bool writable);

  Buffer(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer();

  void* address() const { return address_; }
  std::size_t size() const { return size_; }
  bool writable() const { return writable_; }
  int fd() const { return fd_.get(); }

  /// Set every byte; raises Failure if the mapping is read-only.
  void fill(unsigned char byte);

  /// Close the descriptor. The mapping stays, since tensors may still point into it.
  void close_fd() { fd_.reset(); }

 private:
  Buffer(UniqueFd fd, void* address, std::size_t size, bool writable);

  UniqueFd fd_;
  void* address_;
  std::size_t size_;
  bool writable_;
};

}  // namespace warpsmith
