#pragma once

#include <string_view>

namespace warpsmith {

/// Raise Failure unless `image` is a 64-bit ELF file whose tables and sections lie inside it. The driver gets
/// an address and no length: it would read past the end of a truncated or forged image.
void check_cubin(std::string_view image);

}  // namespace warpsmith
