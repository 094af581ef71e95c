// Frames over a real socket pair, and the effects of a peer that writes arbitrary bytes.

#include "protocol/channel.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "check.h"
#include "protocol/crc32c.h"

namespace warpsmith {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

struct Ends {
  Channel ours;
  UniqueFd peer;

  static Ends make() {
    auto [first, second] = Channel::pair();
    return Ends(std::move(first), std::move(second));
  }
  Frame recv(double seconds) { return ours.recv(Deadline::after(seconds), {}); }
  void write_raw(std::span<const std::byte> data) {
    CHECK(::write(peer.get(), data.data(), data.size()) == static_cast<ssize_t>(data.size()));
  }

 private:
  Ends(UniqueFd first, UniqueFd second) : ours(std::move(first)), peer(std::move(second)) {}
};

void test_round_trip_with_descriptors() {
  auto [first, second] = Channel::pair();
  Channel sender(std::move(first)), receiver(std::move(second));
  const int fds[] = {0, 1, 2};
  for (int i = 0; i < 100; ++i) sender.send(7, bytes_of("payload"), fds, Deadline::after(1), {});
  for (int i = 0; i < 100; ++i) {
    const Frame frame = receiver.recv(Deadline::after(1), {});
    CHECK(frame.kind == 7);
    CHECK(frame.length == 7 && std::string(reinterpret_cast<char*>(frame.payload.get()), 7) == "payload");
    CHECK(frame.fds.size() == 3);
    for (const UniqueFd& fd : frame.fds) CHECK(::fcntl(fd.get(), F_GETFD) == FD_CLOEXEC);
  }
}

void test_large_payload() {
  auto [first, second] = Channel::pair();
  Channel sender(std::move(first)), receiver(std::move(second));
  const std::vector<std::byte> payload(16u << 20, std::byte{42});
  std::jthread thread([&] { sender.send(1, payload, {}, Deadline::after(30), {}); });
  const Frame frame = receiver.recv(Deadline::after(30), {});
  CHECK(std::ranges::equal(frame.bytes(), std::span(payload)));
}

void test_random_bytes() {
  std::mt19937 random(4);
  for (int round = 0; round < 500; ++round) {
    Ends ends = Ends::make();
    std::vector<std::byte> data(1 + random() % 100);
    for (std::byte& b : data) b = static_cast<std::byte>(random());
    ends.write_raw(data);
    ends.peer.reset();
    const auto failure = failure_of([&] { ends.recv(1); });
    CHECK(failure && (failure->kind == FailureKind::kFrame || failure->kind == FailureKind::kPeerClosed));
  }
}

void test_cuts_at_every_byte() {
  const auto head = encode_header({3, 0, 0, 5, crc32c(bytes_of("hello"))});
  std::vector<std::byte> whole(head.begin(), head.end());
  for (const std::byte b : bytes_of("hello")) whole.push_back(b);
  Ends ends = Ends::make();
  for (std::size_t i = 0; i + 1 < whole.size(); ++i) {
    ends.write_raw(std::span(whole).subspan(i, 1));
    const auto failure = failure_of([&] { ends.recv(0); });
    CHECK(failure && failure->kind == FailureKind::kDeadline);
  }
  ends.write_raw(std::span(whole).last(1));
  CHECK(ends.recv(1).kind == 3);
}

void test_no_descriptor_is_lost() {
  const int before = ::dup(0);
  ::close(before);
  {
    auto [first, second] = Channel::pair();
    Channel sender(std::move(first));
    const int fds[] = {0, 0};
    sender.send(1, bytes_of("x"), fds, Deadline::after(1), {});
    Channel receiver(std::move(second));
    const Frame frame = receiver.recv(Deadline::after(1), {});
    sender.send(1, bytes_of("never received"), fds, Deadline::after(1), {});
  }
  const int after = ::dup(0);
  ::close(after);
  CHECK(before == after);
}

int lowest_free_descriptor() {
  const int fd = ::dup(0);
  ::close(fd);
  return fd;
}

void send_with_descriptor(int socket, std::span<const std::byte> data) {
  iovec part{const_cast<std::byte*>(data.data()), data.size()};
  alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof(int))]{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = 0;
  std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  CHECK(::sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(data.size()));
}

// A receiver that checks its clock only when it has to wait would take everything available. A message with a
// descriptor ends a read, so the data arrives byte by byte.
void test_the_deadline_holds_while_bytes_are_ready() {
  constexpr int kBytes = 100;
  Ends ends = Ends::make();
  ends.write_raw(encode_header({3, kBytes, 0, kBytes, 0}));
  const int before = lowest_free_descriptor();
  for (int i = 0; i < kBytes; ++i) send_with_descriptor(ends.peer.get(), bytes_of("x"));
  for (int received = 1; received <= 3; ++received) {
    CHECK(fails(FailureKind::kDeadline, "a frame", [&] { ends.recv(0); }));
    CHECK(lowest_free_descriptor() == before + received);
  }
}

// The descriptors of a failed frame are closed while the channel still lives.
void test_a_failed_frame_closes_its_descriptors_at_once() {
  const auto bad_sum = encode_header({3, 1, 0, 1, crc32c(bytes_of("x")) + 1});
  const auto good = encode_header({3, 1, 0, 5, crc32c(bytes_of("hello"))});
  for (const bool dies_inside : {false, true}) {
    Ends ends = Ends::make();
    const int before = lowest_free_descriptor();
    send_with_descriptor(ends.peer.get(), dies_inside ? good : bad_sum);
    CHECK(fails(FailureKind::kDeadline, "a frame", [&] { ends.recv(0); }));
    CHECK(lowest_free_descriptor() > before);
    ends.write_raw(bytes_of("x"));
    if (dies_inside) ends.peer.reset();
    const auto failure = failure_of([&] { ends.recv(1); });
    CHECK(failure && failure->kind == (dies_inside ? FailureKind::kPeerClosed : FailureKind::kFrame));
    CHECK(lowest_free_descriptor() <= before);
  }
}

void test_usage() {
  CHECK(fails(FailureKind::kNative, "open",
              [] { Channel channel(UniqueFd(::socket(AF_INET, SOCK_STREAM, 0))); }));
  Ends ends = Ends::make();
  ends.ours.close();
  CHECK(fails(FailureKind::kNative, "recv", [&] { ends.recv(0); }));
}

}  // namespace
}  // namespace warpsmith

int main() {
  // Descriptors that a caller left open would disturb the count here.
  for (int fd = 3; fd < 64; ++fd) ::close(fd);
  warpsmith::test_round_trip_with_descriptors();
  warpsmith::test_large_payload();
  warpsmith::test_random_bytes();
  warpsmith::test_cuts_at_every_byte();
  warpsmith::test_no_descriptor_is_lost();
  warpsmith::test_the_deadline_holds_while_bytes_are_ready();
  warpsmith::test_a_failed_frame_closes_its_descriptors_at_once();
  warpsmith::test_usage();
}
