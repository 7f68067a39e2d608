#pragma once

// formwork.v1.Tensor on the wire <-> Tensor: one gather of the received slices into aligned memory
// on the way in; no copy of large values on the way out.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"
#include "formwork/v1/types.pb.h"
#include "server/wire_format.h"

namespace formwork::server {

/// The fields of a Tensor message as they are met; its bytes stay where they are until Build.
/// The message that was parsed outlives it.
class TensorParts {
 public:
  /// Reads the fields of a Tensor message. A second time merges, as protobuf does. False where the
  /// bytes are malformed.
  bool Parse(WireReader message);

  /// Errors: kInvalidArgument if the dtype is unknown or cannot travel (resource, variant), a
  /// dimension is negative, or the content's size is not that of the shape; kResourceExhausted if
  /// the memory is not there.
  absl::StatusOr<Tensor> Build(Allocator& allocator) const;

  /// The parts of a parsed message, which must outlive them and `chunk`.
  static TensorParts Of(const v1::Tensor& message, absl::string_view* chunk);

 private:
  void AddDim(uint64_t dim);
  absl::StatusOr<Tensor> BuildStrings(Allocator& allocator, const Shape& shape) const;

  int32_t dtype_ = 0;
  Dims dims_;
  WireReader content_;
};

/// A tensor in a message that protobuf parsed. Errors: as TensorParts::Build.
absl::StatusOr<Tensor> TensorFromMessage(const v1::Tensor& message, Allocator& allocator);

/// The size of the Tensor message of `tensor`, whose dtype is plain data or string.
size_t EncodedTensorSize(const Tensor& tensor);

/// Writes the Tensor message itself (without a field's tag and length).
void WriteTensor(const Tensor& tensor, WireWriter* writer);

}  // namespace formwork::server
