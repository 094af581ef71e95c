#include "device/cubin.h"

#include <elf.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "core/failure.h"

namespace warpsmith {

namespace {

constexpr std::uint16_t kMachineCuda = 190;

[[noreturn]] void raise_image(const std::string& message) {
  throw Failure(FailureKind::kNative, "device", "cubin", EINVAL, "The kernel's image " + message,
                "Give the bytes of a cubin as the compiler made it; PTX is not accepted.");
}

template <typename Part>
Part read_at(std::string_view image, std::uint64_t offset) {
  Part part{};
  std::memcpy(&part, image.data() + offset, sizeof part);
  return part;
}

void check_inside(std::string_view image, std::uint64_t offset, std::uint64_t size, const char* what) {
  if (offset > image.size() || size > image.size() - offset)
    raise_image(std::string("is cut short: ") + what + " lies outside its " + std::to_string(image.size()) +
                " bytes.");
}

Elf64_Ehdr read_header(std::string_view image) {
  if (image.size() < sizeof(Elf64_Ehdr) || std::memcmp(image.data(), ELFMAG, SELFMAG) != 0)
    raise_image("is no ELF file.");
  const auto header = read_at<Elf64_Ehdr>(image, 0);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kMachineCuda)
    raise_image("is not a 64-bit ELF file for CUDA devices.");
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum == 0)
    raise_image("has no readable section table.");
  if (header.e_phnum != 0 && header.e_phentsize != sizeof(Elf64_Phdr))
    raise_image("has program headers of an unknown size.");
  return header;
}

}  // namespace

void check_cubin(std::string_view image) {
  const Elf64_Ehdr header = read_header(image);
  check_inside(image, header.e_phoff, std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr), "a program header");
  check_inside(image, header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr), "a section header");
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    const auto section = read_at<Elf64_Shdr>(image, header.e_shoff + i * sizeof(Elf64_Shdr));
    if (section.sh_type != SHT_NOBITS) check_inside(image, section.sh_offset, section.sh_size, "a section");
  }
}

}  // namespace warpsmith
