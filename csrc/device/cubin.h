#pragma once

#include <string_view>

namespace warpsmith {

/// Raise Failure unless `image` is a 64-bit ELF file whose tables and sections lie inside it. The driver is
/// given an address and no length: it would read past the end of an image that was cut short or forged.
void check_cubin(std::string_view image);

}  // namespace warpsmith
