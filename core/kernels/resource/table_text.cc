#include "core/kernels/resource/table_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/ops/graph_dtype.h"

namespace formwork {
namespace {

constexpr int64_t kWholeLine = TableTextAttrs::kWholeLine;
constexpr int64_t kLineNumber = TableTextAttrs::kLineNumber;

int64_t CountLines(absl::string_view text) {
  const auto ends = std::count(text.begin(), text.end(), '\n');
  return ends + (text.empty() || text.back() == '\n' ? 0 : 1);
}

// Takes the first line off `text`.
absl::string_view TakeLine(absl::string_view& text) {
  const size_t end = text.find('\n');
  absl::string_view line = text.substr(0, end);
  text.remove_prefix(end == absl::string_view::npos ? text.size() : end + 1);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  return line;
}

// Column `index` of `line`; false where it has fewer, and then `index` is how many it has.
bool FindColumn(absl::string_view line, char delimiter, int64_t& index, absl::string_view& column) {
  for (int64_t i = 0;; ++i) {
    const size_t end = line.find(delimiter);
    column = line.substr(0, end);
    if (i == index) return true;
    if (end == absl::string_view::npos) {
      index = i + 1;
      return false;
    }
    line.remove_prefix(end + 1);
  }
}

bool ParseField(absl::string_view field, Tensor& to, int64_t i) {
  switch (to.dtype()) {
    case DType::kString:
      to.mutable_data<std::string>()[i].assign(field.data(), field.size());
      return true;
    case DType::kInt32:
      return absl::SimpleAtoi(field, &to.mutable_data<int32_t>()[i]);
    case DType::kInt64:
      return absl::SimpleAtoi(field, &to.mutable_data<int64_t>()[i]);
    case DType::kFloat:
      return absl::SimpleAtof(field, &to.mutable_data<float>()[i]);
    default:  // CheckTableText lets no other through.
      return absl::SimpleAtod(field, &to.mutable_data<double>()[i]);
  }
}

class Lines {
 public:
  Lines(const TableTextAttrs& attrs, absl::string_view file) : attrs_(attrs), file_(file) {}

  // Puts what line `i` has at `index` there into `to`.
  absl::Status Put(absl::string_view line, int64_t i, int64_t index, Tensor& to) const {
    if (index == kLineNumber) {
      // Far offsets wrap around.
      to.mutable_data<int64_t>()[i] =
          static_cast<int64_t>(static_cast<uint64_t>(i) + static_cast<uint64_t>(attrs_.offset));
      return absl::OkStatus();
    }
    absl::string_view field = line;
    if (index != kWholeLine) FORMWORK_RETURN_IF_ERROR(Column(line, i, index, field));
    if (ParseField(field, to, i)) return absl::OkStatus();
    return InvalidArgument("Field ", field, " in line ", i, " is not a valid ",
                           GraphDTypeName(to.dtype()), ".");
  }

 private:
  absl::Status Column(absl::string_view line, int64_t i, int64_t index,
                      absl::string_view& column) const {
    // Of the two columns the farther one is missed first.
    const int64_t last = std::max(attrs_.key_index, attrs_.value_index);
    int64_t found = last;
    if (!FindColumn(line, attrs_.delimiter[0], found, column)) {
      return InvalidArgument("Invalid number of columns in ", file_, " line ", i, " (", line,
                             ") : expected at least ", last + 1, " got ", found);
    }
    if (index != last) FindColumn(line, attrs_.delimiter[0], index, column);
    return absl::OkStatus();
  }

  const TableTextAttrs& attrs_;
  const absl::string_view file_;
};

}  // namespace

absl::StatusOr<TableEntries> TableEntriesOf(const std::string& text, const ResourceType& type,
                                            const TableTextAttrs& attrs, absl::string_view file,
                                            Allocator& allocator) {
  const int64_t lines = CountLines(text);
  const int64_t wanted = attrs.vocab_size < 0 ? lines : attrs.vocab_size;
  if (wanted == 0) {
    return absl::OutOfRangeError(lines == 0
                                     ? "Read less bytes than requested"
                                     : absl::StrCat("Finished reading 0 of lines from ", file));
  }
  const Shape shape({std::min(lines, wanted)});
  TableEntries entries;
  FORMWORK_ASSIGN_OR_RETURN(entries.keys, Tensor::Allocate(allocator, type.parts[0].dtype, shape));
  FORMWORK_ASSIGN_OR_RETURN(entries.values,
                            Tensor::Allocate(allocator, type.parts[1].dtype, shape));
  const Lines parsed(attrs, file);
  absl::string_view rest = text;
  for (int64_t i = 0; i < shape.dim(0); ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    const absl::string_view line = TakeLine(rest);
    if (line.empty()) {
      return InvalidArgument("Invalid content in ", file, ": empty line found at position ",
                             text.size() - rest.size(), ".");
    }
    FORMWORK_RETURN_IF_ERROR(parsed.Put(line, i, attrs.key_index, entries.keys));
    FORMWORK_RETURN_IF_ERROR(parsed.Put(line, i, attrs.value_index, entries.values));
  }
  if (lines < wanted) {
    return InvalidArgument("Invalid vocab_size in ", file, ": expected ", wanted, " but got ",
                           lines);
  }
  return entries;
}

}  // namespace formwork
