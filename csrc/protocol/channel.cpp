#include "protocol/channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "core/failure.h"
#include "protocol/crc32c.h"

namespace warpsmith {

namespace {

constexpr const char* kLayer = "channel";
constexpr int kAttempts = 50;
constexpr std::chrono::milliseconds kPause(20);

[[noreturn]] void raise_closed(const char* operation) {
  throw Failure(
      FailureKind::kPeerClosed, kLayer, operation, ECONNRESET,
      "The peer closed the channel or died while this process was in " + std::string(operation) + ".");
}

[[noreturn]] void raise_deadline(const std::string& awaited) {
  throw Failure(FailureKind::kDeadline, kLayer, awaited, ETIMEDOUT,
                "The deadline passed while awaiting " + awaited + ".");
}

// A peer that drips bytes always has some ready, so a wait alone would never notice the deadline.
void check_progress(const Deadline& deadline, const std::string& awaited) {
  if (deadline.passed()) raise_deadline(awaited);
}

[[noreturn]] void raise_usage(const std::string& operation, int error, const std::string& message) {
  throw Failure(FailureKind::kNative, kLayer, operation, error, message);
}

int socket_option(int fd, int option, const char* name) {
  int value = 0;
  socklen_t size = sizeof value;
  if (::getsockopt(fd, SOL_SOCKET, option, &value, &size) != 0)
    throw system_failure(kLayer, std::string("getsockopt ") + name, errno,
                         "Give a connected Unix stream socket.");
  return value;
}

std::unique_lock<std::mutex> lock_direction(std::mutex& mutex, const char* operation) {
  std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock)
    raise_usage(operation, EBUSY, std::string("Another thread is in ") + operation + " of this channel.");
  return lock;
}

// The kernel had no memory for a message, and moved nothing. Retried for a second, then an error.
bool may_pass(int error, int& attempts) {
  if ((error != ENOMEM && error != ENOBUFS) || ++attempts > kAttempts) return false;
  std::this_thread::sleep_for(kPause);
  return true;
}

// If a standard descriptor is closed, a new socket gets its number, and library output would go into it.
UniqueFd above_standard(UniqueFd fd) {
  if (fd.get() > STDERR_FILENO) return fd;
  const int moved = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (moved < 0) throw system_failure(kLayer, "F_DUPFD_CLOEXEC", errno);
  return UniqueFd(moved);
}

// Takes every descriptor of a message, so that none leaks whatever happens to the frame.
void take_descriptors(msghdr& message, std::vector<UniqueFd>& fds) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
}

}  // namespace

Channel::Channel(UniqueFd fd) : fd_(std::move(fd)) {
  if (socket_option(fd_.get(), SO_DOMAIN, "SO_DOMAIN") != AF_UNIX ||
      socket_option(fd_.get(), SO_TYPE, "SO_TYPE") != SOCK_STREAM)
    raise_usage("open", EPROTOTYPE, "A channel needs a Unix stream socket (AF_UNIX, SOCK_STREAM).");
}

std::pair<UniqueFd, UniqueFd> Channel::pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw system_failure(kLayer, "socketpair", errno);
  UniqueFd first(ends[0]);
  UniqueFd second(ends[1]);
  return {above_standard(std::move(first)), above_standard(std::move(second))};
}

void Channel::check_open(const char* operation) const {
  if (!fd_.valid())
    raise_usage(operation, EBADF, std::string("The channel is closed; ") + operation + " needs an open one.");
}

void Channel::send(std::uint16_t kind, std::span<const std::byte> payload, std::span<const int> fds,
                   const Deadline& deadline, const InterruptHook& interrupted) {
  const auto lock = lock_direction(sending_, "send");
  check_open("send");
  if (send_broken_)
    raise_usage("send", EPIPE, "An earlier send stopped inside a frame; this channel can send no more.");
  if (payload.size() > kMaxPayloadBytes)
    raise_usage("send", EMSGSIZE,
                "A payload has " + std::to_string(payload.size()) + " bytes; at most " +
                    std::to_string(kMaxPayloadBytes) + " are allowed.");
  if (fds.size() > kMaxFrameFds)
    raise_usage("send", EMSGSIZE,
                "A frame would carry " + std::to_string(fds.size()) + " descriptors; at most " +
                    std::to_string(kMaxFrameFds) + " are allowed.");
  const HeaderBytes head = encode_header({kind, static_cast<std::uint16_t>(fds.size()), next_sent_,
                                          static_cast<std::uint32_t>(payload.size()), crc32c(payload)});
  const std::size_t total = kHeaderBytes + payload.size();
  for (std::size_t sent = 0; sent < total;) {
    const auto head_left = std::span(head).subspan(std::min(sent, kHeaderBytes));
    const auto body_left = payload.subspan(sent > kHeaderBytes ? sent - kHeaderBytes : 0);
    // Descriptors accompany the first byte; sending them with a later part would send them twice.
    sent += send_some(head_left, body_left, sent == 0 ? fds : std::span<const int>{}, deadline, interrupted);
    send_broken_ = sent < total;
    if (send_broken_) check_progress(deadline, "room to send a frame");
  }
  ++next_sent_;
}

std::size_t Channel::send_some(std::span<const std::byte> head, std::span<const std::byte> body,
                               std::span<const int> fds, const Deadline& deadline,
                               const InterruptHook& interrupted) {
  std::array<iovec, 2> parts{iovec{const_cast<std::byte*>(head.data()), head.size()},
                             iovec{const_cast<std::byte*>(body.data()), body.size()}};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kMaxFrameFds * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(part), fds.data(), fds.size_bytes());
  }
  int attempts = 0;
  while (true) {
    const ssize_t sent = ::sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EPIPE || errno == ECONNRESET) raise_closed("send");
    if (may_pass(errno, attempts)) continue;
    if (errno != EAGAIN && errno != EINTR) throw system_failure(kLayer, "sendmsg", errno);
    if (!wait_ready(fd_.get(), POLLOUT, deadline, kLayer, interrupted))
      raise_deadline("room to send a frame");
  }
}

Frame Channel::recv(const Deadline& deadline, const InterruptHook& interrupted) {
  const auto lock = lock_direction(receiving_, "recv");
  check_open("recv");
  if (receive_broken_)
    raise_usage("recv", EBADMSG, "An earlier frame broke the rules; this channel can receive no more.");
  try {
    if (incoming_.head_got < kHeaderBytes) read_head(deadline, interrupted);
    read_body(deadline, interrupted);
    if (incoming_.frame.fds.size() != incoming_.header.fds)
      raise_frame("descriptor count", "A frame announces " + std::to_string(incoming_.header.fds) +
                                          " descriptors and carries " +
                                          std::to_string(incoming_.frame.fds.size()) + ".");
    check_payload(incoming_.header, incoming_.frame.bytes());
  } catch (const Failure& failure) {
    receive_broken_ = failure.kind != FailureKind::kDeadline;
    if (receive_broken_) incoming_ = Incoming{};
    throw;
  }
  ++next_received_;
  return std::exchange(incoming_, Incoming{}).frame;
}

void Channel::read_head(const Deadline& deadline, const InterruptHook& interrupted) {
  while (true) {
    const auto missing = std::span(incoming_.head).subspan(incoming_.head_got);
    incoming_.head_got += receive_some(missing, deadline, interrupted);
    if (incoming_.head_got == kHeaderBytes) break;
    check_progress(deadline, "a frame");
  }
  incoming_.header = decode_header(incoming_.head, next_received_);
  incoming_.frame.kind = incoming_.header.kind;
  incoming_.frame.length = incoming_.header.length;
  // Not zeroed: pages that a dripping peer never fills are never touched.
  incoming_.frame.payload = std::make_unique_for_overwrite<std::byte[]>(incoming_.header.length);
}

void Channel::read_body(const Deadline& deadline, const InterruptHook& interrupted) {
  while (incoming_.body_got < incoming_.frame.length) {
    const std::span<std::byte> body(incoming_.frame.payload.get(), incoming_.frame.length);
    incoming_.body_got += receive_some(body.subspan(incoming_.body_got), deadline, interrupted);
    if (incoming_.body_got < incoming_.frame.length) check_progress(deadline, "a frame");
  }
}

std::size_t Channel::receive_some(std::span<std::byte> into, const Deadline& deadline,
                                  const InterruptHook& interrupted) {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kMaxFrameFds * sizeof(int))> control{};
  int attempts = 0;
  while (true) {
    iovec part{into.data(), into.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got >= 0) {
      take_descriptors(message, incoming_.frame.fds);
      if (message.msg_flags & MSG_CTRUNC)
        raise_frame("descriptors",
                    "A message carries more descriptors than a frame or this process may hold.");
      if (incoming_.frame.fds.size() > kMaxFrameFds)
        raise_frame("descriptor count", "The parts of a frame carry more descriptors than a frame may hold.");
      if (got == 0) raise_closed("recv");
      return static_cast<std::size_t>(got);
    }
    if (errno == ECONNRESET) raise_closed("recv");
    if (may_pass(errno, attempts)) continue;
    if (errno != EAGAIN && errno != EINTR) throw system_failure(kLayer, "recvmsg", errno);
    if (!wait_ready(fd_.get(), POLLIN, deadline, kLayer, interrupted)) raise_deadline("a frame");
  }
}

}  // namespace warpsmith
