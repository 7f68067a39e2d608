#pragma once

// Which rows of a variable a call has changed, for whoever keeps or sends changes: a few rows of an
// embedding are a small one.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/resource/resource_access.h"

namespace formwork {

/// The rows, parts along the first dimension, that have been changed: remembered by the indices as
/// they came, which costs a reference, because nobody may ask. They are worth it while they are
/// no more than half of the value; from then on, any row may have been changed. Used by one thread
/// at a time.
class ChangedRows {
 public:
  /// Makes room for one more Add of rows of `value`, which then needs no memory. Throws as operator
  /// new does.
  void Reserve(const Tensor& value);
  /// `rows` of `value`, a variable's, have been changed.
  void Add(const RowIndices& rows, const Tensor& value);
  /// Any may have been.
  void AddAll();

  /// Whether it is known which. Where not, Rows() is empty.
  bool known() const { return known_; }
  /// Whether Copy has less to do than copying the value.
  bool worth_copying(const Tensor& value) const {
    return known_ && !indices_.empty() && !value.on_device() && IsPlainData(value.dtype());
  }
  /// Ascending, each once.
  std::vector<int64_t> Rows() const;
  /// Those, and a copy of what they are in `value`: what a change by rows is made of again.
  struct Copied {
    Tensor rows;    ///< int64.
    Tensor values;  ///< As `value`, with so many rows.
  };
  /// Of a value of plain data, in host memory, of which some rows are known to have been changed.
  /// Errors: kResourceExhausted.
  absl::StatusOr<Copied> Copy(const Tensor& value, Allocator& allocator) const;

 private:
  bool known_ = true;
  int64_t count_ = 0;  // Of all rows of the value.
  std::vector<RowIndices> indices_;
  size_t bytes_ = 0;  // Of the indices and of the rows that they name.
};

}  // namespace formwork
