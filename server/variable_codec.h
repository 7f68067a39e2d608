#pragma once

// The messages that read and write variables and kept tensors, with their values in place.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/engine.h"
#include "formwork/v1/types.pb.h"
#include "formwork/v1/variables.pb.h"
#include "grpcpp/support/byte_buffer.h"

namespace formwork::server {

struct DecodedAssign {
  std::string name_space;
  uint64_t expected_epoch = 0;
  RequestId request;
  std::vector<std::pair<Target, Argument>> values;

  /// Whether its IDs have a meaning in one life of the server alone.
  bool names_by_id() const;
};

/// formwork.v1.AssignVariablesRequest.
/// Errors: kInvalidArgument if the message is malformed or a value is (the text names the
/// assignment); kResourceExhausted if there is no memory for a value.
absl::Status DecodeAssignRequest(const grpc::ByteBuffer& message, Allocator& allocator,
                                 DecodedAssign* assign);

/// A target of formwork.v1. Errors: kInvalidArgument where it names nothing.
absl::StatusOr<Target> TargetFrom(const v1::VariableTarget& message);

/// Which elements of a value of that many are asked for. Errors: kOutOfRange where some are not
/// there.
absl::Status CheckRange(const v1::ElementRange& range, int64_t num_elements);

/// formwork.v1.ReadVariablesResponse: a value or a kept tensor's ID for each variable. `range`: of
/// the only value; null: all of it.
/// Errors: kResourceExhausted if it is larger than `limit`; kInvalidArgument if a value cannot
/// leave the server; as CheckRange.
absl::Status EncodeReadVariables(uint64_t epoch, const std::vector<v1::VariableInfo>& variables,
                                 const std::vector<CallOutput>& values,
                                 const v1::ElementRange* range, size_t limit,
                                 grpc::ByteBuffer* message);

/// formwork.v1.ReadTensorResponse. Errors: as EncodeReadVariables.
absl::Status EncodeReadTensor(uint64_t epoch, const Tensor& tensor, const v1::ElementRange* range,
                              size_t limit, grpc::ByteBuffer* message);

}  // namespace formwork::server
