#pragma once

// Messages with tensors, without a copy of what is large: the tensors' bytes are slices of the
// message. For the library itself.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "formwork/client.h"
#include "grpcpp/support/byte_buffer.h"

namespace formwork::client {

grpc::ByteBuffer EncodeCall(const CallRequest& request, absl::string_view name_space);
absl::StatusOr<CallResponse> DecodeCall(const grpc::ByteBuffer& message);

/// A message that protobuf serialized, and a tensor as its field 15.
grpc::ByteBuffer AppendTensor(std::string message, const Tensor& tensor);

/// The fields of a message but 15, serialized, and the tensor in field 15.
struct WithTensor {
  std::string others;
  Tensor value;
};
absl::StatusOr<WithTensor> SplitTensor(const grpc::ByteBuffer& message);

}  // namespace formwork::client
