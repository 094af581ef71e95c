#include "core/text.h"

#include <string>

#include "check.h"

using namespace warpsmith;

int main() {
  CHECK(!read_text("/proc/self/no-such-file"));
  CHECK(read_text("/proc/self/setgroups").has_value());
  CHECK(read_text("/proc/self/stat")->ends_with('\n'));

  CHECK(split("", ':').empty());
  CHECK((split("a:b", ':') == std::vector<std::string_view>{"a", "b"}));
  CHECK((split("a::b:", ':') == std::vector<std::string_view>{"a", "", "b"}));

  CHECK(words(" \t\n").empty());
  CHECK((words("  0   65534\t1\n") == std::vector<std::string_view>{"0", "65534", "1"}));

  CHECK(to_number("4294967295") == 4294967295ull);
  CHECK(to_number("18446744073709551615") == 18446744073709551615ull);
  CHECK(!to_number("18446744073709551616"));
  CHECK(!to_number(""));
  CHECK(!to_number("-1"));
  CHECK(!to_number("1x"));
  return 0;
}
