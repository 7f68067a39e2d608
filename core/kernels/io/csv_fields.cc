#include "core/kernels/io/csv_fields.h"

#include <type_traits>
#include <utility>

#include "core/base/status.h"
#include "core/kernels/parse_number.h"
#include "core/ops/graph_dtype.h"

namespace formwork {
namespace {

// What errors call numbers.
template <typename T>
absl::string_view NameOf() {
  if constexpr (std::is_same_v<T, float>) return "float";
  if constexpr (std::is_same_v<T, double>) return "double";
  return DTypeName(DTypeOf<T>::value);
}

template <typename T>
absl::Status WriteField(const Tensor& fallback, const CsvFormat& format, size_t i,
                        absl::string_view text, absl::string_view record, T& to) {
  if (text.empty() || text == format.na_value) {
    if (fallback.num_elements() == 0) {
      return InvalidArgument("Field ", i, " is required but missing in record", record, "!");
    }
    to = *fallback.data<T>();
    return absl::OkStatus();
  }
  if constexpr (std::is_same_v<T, std::string>) {
    to.assign(text.data(), text.size());
    return absl::OkStatus();
  } else {
    if (ParseNumber(text, &to)) return absl::OkStatus();
    return InvalidArgument("Field ", i, " in record", record, " is not a valid ", NameOf<T>(), ": ",
                           text.substr(0, 1000));
  }
}

}  // namespace

absl::StatusOr<CsvFormat> CsvFormat::Make(absl::string_view field_delim, bool use_quote_delim,
                                          std::string na_value) {
  if (field_delim.size() != 1) return InvalidArgument("field_delim should be only 1 char");
  return CsvFormat{field_delim[0], use_quote_delim, std::move(na_value)};
}

absl::Status CheckColumns(absl::Span<const int64_t> columns, absl::string_view name) {
  for (size_t i = 1; i < columns.size(); ++i) {
    if (columns[i - 1] < columns[i]) continue;
    return InvalidArgument(name, " should be strictly increasing indices");
  }
  if (columns.empty() || columns[0] >= 0) return absl::OkStatus();
  return InvalidArgument(name, " should be non-negative indices");
}

absl::StatusOr<CsvFields> CsvFields::Make(CsvFormat format, std::vector<Tensor> defaults) {
  for (size_t i = 0; i < defaults.size(); ++i) {
    if (defaults[i].rank() > 1) {
      return InvalidArgument("Each record default should be at most rank 1");
    }
    if (defaults[i].num_elements() > 1) {
      return InvalidArgument("There should only be 1 default per field but field ", i, " has ",
                             defaults[i].num_elements());
    }
    switch (defaults[i].dtype()) {
      case DType::kFloat:
      case DType::kDouble:
      case DType::kInt32:
      case DType::kInt64:
      case DType::kString:
        break;
      default:
        return InvalidArgument("csv: data type ", GraphDTypeName(defaults[i].dtype()),
                               " not supported in field ", i);
    }
  }
  return CsvFields(std::move(format), std::move(defaults));
}

absl::Status CsvFields::Write(size_t i, absl::string_view text, absl::string_view record,
                              Tensor& out, int64_t at) const {
  const auto write = [&]<typename T>(T* to) {
    return WriteField<T>(defaults_[i], format_, i, text, record, to[at]);
  };
  switch (dtype(i)) {
    case DType::kFloat:
      return write(out.mutable_data<float>());
    case DType::kDouble:
      return write(out.mutable_data<double>());
    case DType::kInt32:
      return write(out.mutable_data<int32_t>());
    case DType::kInt64:
      return write(out.mutable_data<int64_t>());
    default:
      return write(out.mutable_data<std::string>());
  }
}

}  // namespace formwork
