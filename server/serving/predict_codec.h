#pragma once

// tensorflow.serving.PredictRequest and PredictResponse on the wire, without message objects: what
// a tensor has as `tensor_content` is gathered once, and floats are sent from where they lie.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/tensor/tensor.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/serving/model.h"
#include "server/serving/predict.h"

namespace formwork::server {

struct DecodedPredict {
  ModelSpec model;  ///< Without a namespace, which is the request's metadata's.
  std::vector<std::string> names;
  std::vector<Tensor> values;  ///< One for each name.
  std::vector<std::string> output_filter;
};

/// Takes any valid encoding. Errors: kInvalidArgument where it is malformed or a value is (the text
/// names the input); kUnimplemented of a version by its label; kResourceExhausted if there is no
/// memory for a value.
absl::Status DecodePredictRequest(const grpc::ByteBuffer& message, Allocator& allocator,
                                  DecodedPredict* predict);

/// Elements are in the fields of their dtypes (`float_val`), as TensorFlow Serving has them, for
/// clients read these. Errors: kInvalidArgument of a variant or resource, kResourceExhausted if it
/// is larger than `limit` bytes.
absl::Status EncodePredictResponse(const Prediction& prediction, size_t limit,
                                   grpc::ByteBuffer* message);

}  // namespace formwork::server
