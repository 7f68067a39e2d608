#pragma once

// NumPy's .npy files.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "formwork/tensor.h"

namespace formwork::command {

/// Errors: kNotFound if the file cannot be read; kInvalidArgument if it is no .npy of plain,
/// little-endian elements in C order.
absl::StatusOr<client::Tensor> ReadNpy(const std::string& path);

/// Types that NumPy lacks are written as unsigned integers of their bits.
/// Errors: kInvalidArgument for strings; kUnavailable if the file cannot be written.
absl::Status WriteNpy(const client::Tensor& tensor, const std::string& path);

absl::StatusOr<std::string> ReadFile(const std::string& path);

}  // namespace formwork::command
