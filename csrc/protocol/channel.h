#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "core/deadline.h"
#include "core/unique_fd.h"
#include "protocol/frame.h"

namespace warpsmith {

/// A received frame. `fds` are close-on-exec and closed unless taken.
struct Frame {
  std::uint16_t kind = 0;
  std::size_t length = 0;
  std::unique_ptr<std::byte[]> payload;
  std::vector<UniqueFd> fds;

  std::span<const std::byte> bytes() const { return {payload.get(), length}; }
};

/// One end of a Unix stream socket that carries frames. The peer may be hostile: it can cause only a Failure
/// of kind kFrame, kPeerClosed or kDeadline. One thread can send while another receives.
class Channel {
 public:
  /// Takes the descriptor; raises Failure unless it is a connected Unix stream socket.
  explicit Channel(UniqueFd fd);

  /// Both ends of a new connection.
  static std::pair<UniqueFd, UniqueFd> pair();

  /// A deadline that passes inside a frame makes the stream unusable for sending: every later send fails.
  void send(std::uint16_t kind, std::span<const std::byte> payload, std::span<const int> fds,
            const Deadline& deadline, const InterruptHook& interrupted);

  /// A deadline that passes inside a frame loses nothing: the next call continues where this one stopped.
  Frame recv(const Deadline& deadline, const InterruptHook& interrupted);

  int fd() const { return fd_.get(); }
  void close() { fd_.reset(); }

 private:
  /// The part of a frame that has arrived; kept if a deadline passes in its middle.
  struct Incoming {
    HeaderBytes head{};
    std::size_t head_got = 0;
    FrameHeader header;
    Frame frame;
    std::size_t body_got = 0;
  };

  void check_open(const char* operation) const;
  void read_head(const Deadline& deadline, const InterruptHook& interrupted);
  void read_body(const Deadline& deadline, const InterruptHook& interrupted);
  std::size_t receive_some(std::span<std::byte> into, const Deadline& deadline,
                           const InterruptHook& interrupted);
  std::size_t send_some(std::span<const std::byte> head, std::span<const std::byte> body,
                        std::span<const int> fds, const Deadline& deadline, const InterruptHook& interrupted);

  UniqueFd fd_;
  std::mutex sending_;
  std::mutex receiving_;
  std::uint64_t next_sent_ = 0;
  std::uint64_t next_received_ = 0;
  bool send_broken_ = false;
  bool receive_broken_ = false;
  Incoming incoming_;
};

}  // namespace warpsmith
