#include "core/base/name.h"

#include <string>

#include "tests/support/status_matchers.h"

namespace formwork {
namespace {

using ::formwork::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(NameTest, PrintableUtf8IsAName) {
  for (const char* name : {"f", "dense/kernel:0", "a b", "größe", "変数", "\xf0\x9f\x98\x80",
                           "cd2c89b7-88b7-44c8-ad83-06c2a9158347", "x{\"y\"}", "\xc2\xa0"}) {
    EXPECT_OK(CheckName("function", name));
  }
  EXPECT_OK(CheckName("function", std::string(512, 'x')));
}

TEST(NameTest, AnythingElseIsNot) {
  const std::string names[] = {"",
                               std::string(513, 'x'),
                               "a\nb",
                               std::string("a\0b", 3),
                               "\x1b[31m",
                               "\x7f",
                               "\xc2\x85",          // A control character beyond ASCII.
                               "\xff",              // Never in UTF-8.
                               "\xc3",              // Cut off.
                               "\xc0\xaf",          // Overlong.
                               "\xe0\x80\xaf",      // Overlong.
                               "\xed\xa0\x80",      // A surrogate.
                               "\xf4\x90\x80\x80",  // Beyond Unicode.
                               "\x80"};
  for (const std::string& name : names) {
    EXPECT_THAT(CheckName("variable", name),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("name of a variable"), HasSubstr("1 to 512 bytes"))));
  }
  EXPECT_THAT(CheckName("function", "a\nb"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'a\\nb'")));
}

}  // namespace
}  // namespace formwork
