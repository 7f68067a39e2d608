#include "core/storage/tensor_slice.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/numeric/bits.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"

namespace formwork {
namespace {

// OrderedCode, in which the keys of slices are written: order is kept, and each part says its end.
void AppendUnsigned(uint64_t value, std::string* key) {
  const int bytes = (64 - absl::countl_zero(value) + 7) / 8;
  key->push_back(static_cast<char>(bytes));
  for (int i = bytes; i-- > 0;) key->push_back(static_cast<char>(value >> (8 * i)));
}

void AppendText(absl::string_view text, std::string* key) {
  for (const char c : text) {
    key->push_back(c);
    if (c == '\0') key->push_back('\xff');
    if (c == '\xff') key->push_back('\0');
  }
  key->append("\0\1", 2);
}

void AppendSigned(int64_t value, std::string* key) {
  const uint64_t magnitude = static_cast<uint64_t>(value < 0 ? ~value : value);
  // Seven bits to a byte, one of them for the sign.
  const int bytes = (64 - absl::countl_zero(magnitude)) / 7 + 1;
  std::string text(10, value < 0 ? '\xff' : '\0');
  for (int i = 0; i < 8; ++i) text[9 - i] = static_cast<char>(value >> (8 * i));
  text.erase(0, static_cast<size_t>(10 - bytes));
  // In front, as many ones as bytes (or, of what is negative, zeros).
  const uint32_t header = bytes < 10 ? (0xffffu << (16 - bytes)) & 0xffffu : 0xffc0u;
  text[0] = static_cast<char>(text[0] ^ static_cast<char>(header >> 8));
  if (bytes > 1) text[1] = static_cast<char>(text[1] ^ static_cast<char>(header & 0xff));
  key->append(text);
}

}  // namespace

absl::StatusOr<TensorSlice> TensorSlice::Parse(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ' ');
  const auto malformed = [&] {
    return InvalidArgument("not a shape and slice, as in '3 4 0,2:-': '", text, "'");
  };
  Dims dims;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    if (!absl::SimpleAtoi(parts[i], &dims.emplace_back())) return malformed();
  }
  TensorSlice slice;
  FORMWORK_ASSIGN_OR_RETURN(slice.full, Shape::Make(dims));
  const std::vector<absl::string_view> ranges = absl::StrSplit(parts.back(), ':');
  if (ranges.size() != dims.size()) return malformed();
  for (const absl::string_view range : ranges) {
    Range& to = slice.ranges.emplace_back();
    if (range == "-") continue;
    const std::pair<absl::string_view, absl::string_view> numbers =
        absl::StrSplit(range, absl::MaxSplits(',', 1));
    if (!absl::SimpleAtoi(numbers.first, &to.start) ||
        !absl::SimpleAtoi(numbers.second, &to.length) || to.length < 0) {
      return malformed();
    }
  }
  FORMWORK_RETURN_IF_ERROR(slice.Check());
  return slice;
}

Shape TensorSlice::shape() const {
  Dims dims;
  for (size_t i = 0; i < ranges.size(); ++i) {
    dims.push_back(ranges[i].length == -1 ? full.dim(static_cast<int>(i)) : ranges[i].length);
  }
  return Shape::Trusted(dims);
}

absl::Status TensorSlice::Check() const {
  for (size_t i = 0; i < ranges.size(); ++i) {
    const Range& range = ranges[i];
    const int64_t dim = full.dim(static_cast<int>(i));
    if (range.length == -1 && range.start == 0) continue;
    if (range.start < 0 || range.length < 0 || range.start > dim ||
        range.length > dim - range.start) {
      return InvalidArgument("the slice leaves dimension ", i, ": start=", range.start,
                             " length=", range.length, " size=", dim);
    }
  }
  return absl::OkStatus();
}

std::string SliceKey(absl::string_view key, const TensorSlice& slice) {
  std::string text;
  AppendUnsigned(0, &text);
  AppendText(key, &text);
  AppendUnsigned(slice.ranges.size(), &text);
  for (const TensorSlice::Range& range : slice.ranges) {
    AppendSigned(range.start, &text);
    AppendSigned(range.length, &text);
  }
  return text;
}

}  // namespace formwork
