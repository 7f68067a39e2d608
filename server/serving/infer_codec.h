#pragma once

// inference.ModelInferRequest, ModelInferResponse and ModelStreamInferResponse on the wire, without
// message objects: what is in raw_input_contents is gathered once, and outputs are sent from where
// they lie.

#include <string>

#include "absl/status/status.h"
#include "core/tensor/tensor.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/serving/infer.h"
#include "server/serving/predict.h"

namespace formwork::server {

/// Takes any valid encoding; the model is without a namespace, which is the request's metadata's.
/// What was read before an error is in `request`: its id where it comes first, as protobuf writes
/// it. Errors: kInvalidArgument where it is malformed or a value is (the text names the input);
/// TakeParameter's, VersionFrom's; kResourceExhausted if there is no memory for a value.
absl::Status DecodeInferRequest(const grpc::ByteBuffer& message, Allocator& allocator,
                                InferRequest* request);

/// Elements are in raw_output_contents. Errors: CheckDatatypes'; kResourceExhausted if it is larger
/// than `limit` bytes.
absl::Status EncodeInferResponse(const Prediction& prediction, size_t limit,
                                 grpc::ByteBuffer* message);

/// The same for a stream, where each response is the last one of its request.
absl::Status EncodeStreamInferResponse(const Prediction& prediction, size_t limit,
                                       grpc::ByteBuffer* message);
/// Of a request of a stream that has failed. `id`: as it had it.
grpc::ByteBuffer EncodeStreamInferError(const std::string& id, const absl::Status& error);

}  // namespace formwork::server
