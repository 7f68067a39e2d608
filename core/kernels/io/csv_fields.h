#pragma once

// Fields of lines of comma-separated values as tensors. Errors are kInvalidArgument, in
// TensorFlow's words.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// How lines are written.
struct CsvFormat {
  char delimiter = ',';
  bool quotes = true;    ///< '"' around a field sets it apart, and '""' in it is one.
  std::string na_value;  ///< Stands for a field that is missing, as no text does.

  static absl::StatusOr<CsvFormat> Make(absl::string_view field_delim, bool use_quote_delim,
                                        std::string na_value);
};

/// Errors: unless `columns` go up from 0 or more. `name`: what they are.
absl::Status CheckColumns(absl::Span<const int64_t> columns, absl::string_view name);

/// What fields become: a scalar of its dtype each.
class CsvFields {
 public:
  /// `defaults`: for each field its value where it is missing, or an empty vector of its dtype
  /// where it may not be.
  static absl::StatusOr<CsvFields> Make(CsvFormat format, std::vector<Tensor> defaults);

  size_t size() const { return defaults_.size(); }
  const CsvFormat& format() const { return format_; }
  DType dtype(size_t i) const { return defaults_[i].dtype(); }
  /// Writes field `i` as element `at` of `out`, of its dtype. `record`: what errors call the line.
  absl::Status Write(size_t i, absl::string_view text, absl::string_view record, Tensor& out,
                     int64_t at) const;

 private:
  CsvFields(CsvFormat format, std::vector<Tensor> defaults)
      : format_(std::move(format)), defaults_(std::move(defaults)) {}

  CsvFormat format_;
  std::vector<Tensor> defaults_;
};

}  // namespace formwork
