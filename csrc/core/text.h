#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace warpsmith {

// The kernel's text files, read and split without iostreams: their locale facets are shared by name among all
// C++ libraries of a process, and an extension that was linked with its own copy of the C++ library then
// never ends a read once another library (numpy's, say) has brought a second copy.

/// The whole of a file, or nothing where it cannot be read; `errno` says why.
std::optional<std::string> read_text(const std::string& path);

/// The parts between `separator`s; empty ones too, except one after the last separator.
std::vector<std::string_view> split(std::string_view text, char separator);

/// The parts between runs of blanks, tabs and newlines.
std::vector<std::string_view> words(std::string_view text);

/// A whole decimal number of one word, or nothing.
std::optional<std::uint64_t> to_number(std::string_view word);

}  // namespace warpsmith
