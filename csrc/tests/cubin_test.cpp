// Kernel images: truncated images and other files are rejected before the driver reads them.

#include "device/cubin.h"

#include <elf.h>

#include <cstring>
#include <string>

#include "check.h"

namespace warpsmith {
namespace {

constexpr std::size_t kBodyBytes = 16;

struct Image {
  Elf64_Ehdr header{};
  Elf64_Phdr program{};
  Elf64_Shdr section{};

  std::string bytes() const {
    std::string all(sizeof header + sizeof program + sizeof section + kBodyBytes, '\0');
    std::memcpy(all.data(), &header, sizeof header);
    std::memcpy(all.data() + sizeof header, &program, sizeof program);
    std::memcpy(all.data() + sizeof header + sizeof program, &section, sizeof section);
    return all;
  }
};

Image valid_image() {
  Image image;
  std::memcpy(image.header.e_ident, ELFMAG, SELFMAG);
  image.header.e_ident[EI_CLASS] = ELFCLASS64;
  image.header.e_machine = 190;
  image.header.e_phoff = sizeof image.header;
  image.header.e_phentsize = sizeof image.program;
  image.header.e_phnum = 1;
  image.header.e_shoff = sizeof image.header + sizeof image.program;
  image.header.e_shentsize = sizeof image.section;
  image.header.e_shnum = 1;
  image.section.sh_type = SHT_PROGBITS;
  image.section.sh_offset = image.header.e_shoff + sizeof image.section;
  image.section.sh_size = kBodyBytes;
  return image;
}

template <typename Change>
bool refused(Change change) {
  Image image = valid_image();
  change(image);
  return fails(FailureKind::kNative, "cubin", [&] { check_cubin(image.bytes()); });
}

void test_whole() {
  const std::string bytes = valid_image().bytes();
  check_cubin(bytes);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    CHECK(fails(FailureKind::kNative, "cubin", [&] { check_cubin(std::string(bytes, 0, length)); }));
}

void test_forged() {
  CHECK(refused([](Image& image) { image.header.e_ident[0] = 0; }));
  CHECK(refused([](Image& image) { image.header.e_ident[EI_CLASS] = ELFCLASS32; }));
  CHECK(refused([](Image& image) { image.header.e_machine = EM_X86_64; }));
  CHECK(refused([](Image& image) { image.header.e_shentsize = 1; }));
  CHECK(refused([](Image& image) { image.header.e_phentsize = 1; }));
  CHECK(refused([](Image& image) { image.header.e_shnum = 0; }));
  CHECK(refused([](Image& image) { image.header.e_shnum = 0xfeff; }));
  CHECK(refused([](Image& image) { image.header.e_phoff = ~0ull; }));
  CHECK(refused([](Image& image) { image.header.e_shoff = ~0ull - 8; }));
  CHECK(refused([](Image& image) { image.section.sh_offset = ~0ull - 8; }));
  CHECK(refused([](Image& image) { image.section.sh_size = ~0ull; }));
  CHECK(!refused([](Image& image) {
    image.section.sh_type = SHT_NOBITS;
    image.section.sh_size = 1 << 20;
  }));
}

}  // namespace
}  // namespace warpsmith

int main() {
  warpsmith::test_whole();
  warpsmith::test_forged();
}
