#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace warpsmith {

/// Reads and splits the kernel's text files without iostreams: C++ libraries in a process share locale facets
/// by name, so an extension linked with its own copy of the C++ library can loop forever in a read once
/// another library (numpy's, say) has loaded a second copy.

/// The whole content of a file, or nothing if it cannot be read; `errno` says why.
std::optional<std::string> read_text(const std::string& path);

/// The parts between `separator`s, including empty ones except after the last separator.
std::vector<std::string_view> split(std::string_view text, char separator);

/// The parts between runs of blanks, tabs and newlines.
std::vector<std::string_view> words(std::string_view text);

/// A word that is entirely a decimal number, or nothing.
std::optional<std::uint64_t> to_number(std::string_view word);

}  // namespace warpsmith
