#pragma once

// formwork.v1.Tensor on the wire <-> Tensor: one gather of the received slices into aligned memory
// on the way in; no copy of large values on the way out.

#include <algorithm>
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
  /// The parts of a value whose content is `chunk`, which must outlive them.
  static TensorParts Of(DType dtype, const Shape& shape, const absl::string_view& chunk);
  /// The parts of a value whose content is all that `content` has left.
  static TensorParts Of(DType dtype, absl::Span<const int64_t> dims, WireReader content);

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

/// Writes bytes of a tensor of plain data: many of them from where they lie.
void WriteBytes(const Tensor& tensor, size_t offset, size_t bytes, WireWriter* writer);

/// Elements of a tensor in row-major order, which are there; they travel as a vector.
struct TensorRange {
  const Tensor& tensor;
  int64_t begin;
  int64_t count;
};
size_t EncodedTensorSize(const TensorRange& range);
void WriteTensor(const TensorRange& range, WireWriter* writer);

/// The content of a tensor (as Tensor.content), written piece by piece.
class ContentPieces {
 public:
  explicit ContentPieces(const Tensor& tensor);

  size_t total() const { return total_; }
  size_t written() const { return written_; }
  size_t NextSize(size_t most) const { return std::min(most, total_ - written_); }
  /// Writes the next NextSize(most) bytes.
  void Write(size_t most, WireWriter* writer);

 private:
  void WriteStrings(size_t bytes, WireWriter* writer);

  Tensor tensor_;
  size_t total_ = 0;
  size_t written_ = 0;
  int64_t element_ = 0;       // The string that comes next,
  size_t element_bytes_ = 0;  // and what is written of its length and text.
};

}  // namespace formwork::server
