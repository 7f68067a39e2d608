#pragma once

// formwork.v1.Value and what else the hot messages share, read and written in place.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/engine.h"
#include "server/tensor_codec.h"
#include "server/wire_format.h"

namespace formwork::server {

/// The one field number that requests and responses share for their values.
inline constexpr uint32_t kValues = 15;

/// The error of a message that is not protobuf, or whose fields are of the wrong kind.
absl::Status Malformed(absl::string_view message_name);

/// One Value as it is met; its kind is that of the last field of the oneof. The message that was
/// parsed outlives it.
class ValueParts {
 public:
  /// Reads a Value message; a second time merges, as protobuf does. False where it is malformed.
  bool Parse(WireReader message);
  /// Errors: kInvalidArgument if it holds nothing that can be an input, or as TensorParts::Build.
  absl::StatusOr<Argument> Build(Allocator& allocator) const;

 private:
  uint32_t kind_ = 0;
  TensorParts tensor_;
  uint64_t id_ = 0;
};

/// A google.protobuf.Duration. False where it is malformed.
bool ReadDuration(WireReader message, absl::Duration* duration);

/// True where the tensor's elements can be sent (all but resources and variants).
bool CanLeave(const Tensor& tensor);

/// The size of the Value message of `output`.
size_t EncodedValueSize(const CallOutput& output);
/// Writes it as a field kValues.
void WriteValue(const CallOutput& output, WireWriter* writer);

/// A tensor whose content is sent elsewhere: its dtype and dims.
void WriteValueWithoutContent(const Tensor& tensor, WireWriter* writer);

/// True where encoding copies so much that it would hold up a callback thread: large values of
/// strings, a timeline. (Numbers are sent from where they lie.)
bool SlowToEncode(const Tensor& tensor);
bool SlowToEncode(const CallResult& result);

/// The error of a response that is larger than a message may be. `instead`: what to do.
absl::Status ResponseTooLarge(size_t bytes, size_t limit, absl::string_view instead);

}  // namespace formwork::server
