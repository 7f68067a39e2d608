#pragma once

// Messages with tensors, without a copy of what is large: the tensors' bytes are slices of the
// message. For the library itself.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "formwork/attempts.h"
#include "formwork/client.h"
#include "grpcpp/support/byte_buffer.h"

namespace formwork::client {

grpc::ByteBuffer EncodeCall(const CallRequest& request, absl::string_view name_space,
                            const NumberedRequest& number);
absl::StatusOr<CallResponse> DecodeCall(const grpc::ByteBuffer& message);

/// A message that protobuf serialized, with one more Assignment: the serialized one, with `value`.
grpc::ByteBuffer AppendAssignment(std::string message, const std::string& assignment,
                                  const Tensor& value);

/// The fields of a message but 15, serialized, and the Tensor in field 15.
struct WithTensor {
  std::string others;
  Tensor value;
};
absl::StatusOr<WithTensor> SplitTensor(const grpc::ByteBuffer& message);

/// The same where field 15 is a Value.
struct WithValue {
  std::string others;
  Value value;
};
absl::StatusOr<WithValue> SplitValue(const grpc::ByteBuffer& message);

}  // namespace formwork::client
