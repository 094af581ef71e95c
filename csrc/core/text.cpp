#include "core/text.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>

#include "core/unique_fd.h"

namespace warpsmith {

std::optional<std::string> read_text(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return std::nullopt;
  std::string text;
  std::array<char, 4096> part{};
  while (true) {
    const ssize_t got = ::read(fd.get(), part.data(), part.size());
    if (got == 0) return text;
    if (got > 0) text.append(part.data(), static_cast<std::size_t>(got));
    if (got < 0 && errno != EINTR) return std::nullopt;
  }
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == text.npos) break;
    text.remove_prefix(end + 1);
  }
  return parts;
}

std::vector<std::string_view> words(std::string_view text) {
  static constexpr std::string_view kBlank = " \t\n";
  std::vector<std::string_view> found;
  for (std::size_t at = text.find_first_not_of(kBlank); at != text.npos;) {
    const std::size_t end = text.find_first_of(kBlank, at);
    found.push_back(text.substr(at, end - at));
    at = end == text.npos ? end : text.find_first_not_of(kBlank, end);
  }
  return found;
}

std::optional<std::uint64_t> to_number(std::string_view word) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

}  // namespace warpsmith
