#pragma once

// Values as TensorFlow's message TensorProto, in bytes: what SerializeTensor, ParseTensor and the
// sparse tensors that are strings have in common.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/device/buffer.h"
#include "core/tensor/tensor.h"

namespace formwork {

enum class StringsAs {
  kValues,  ///< One field for each string.
  kContent  ///< As elements of all other dtypes: their lengths, then their bytes.
};

/// `tensor`, of plain data or strings, as TensorFlow writes it. Errors: kInvalidArgument for
/// handles and variants.
absl::StatusOr<std::string> SerializedTensor(const Tensor& tensor, StringsAs strings);

/// The reverse, for all ways in which a TensorProto has its elements. Errors: kInvalidArgument if
/// `bytes` is none, or is one of handles or variants; those of the allocator.
absl::StatusOr<Tensor> ParseSerializedTensor(absl::string_view bytes, Allocator& allocator);

}  // namespace formwork
