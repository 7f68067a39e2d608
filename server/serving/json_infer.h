#pragma once

// The JSON of the Open Inference Protocol's requests and answers over HTTP <-> tensors.
//
//   {"id": "1", "inputs": [{"name": "x", "shape": [2, 2], "datatype": "FP32", "data": [1, 2, 3,
//   4]}],
//    "outputs": [{"name": "y"}]}
//   {"model_name": "m", "model_version": "7", "id": "1",
//    "outputs": [{"name": "y", "datatype": "FP32", "shape": [2], "data": [3.0, 7.0]}]}
//
// RapidJSON reads a text where it is, and elements once more, when their datatype is known. All
// memory is operator new's, or the allocator's, as json_tensors.h has it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/tensor.h"
#include "server/serving/infer.h"
#include "server/serving/predict.h"

namespace formwork::server {

/// An input, before its elements are read.
struct JsonInferInput {
  std::string name;
  std::string datatype;
  Dims shape;
  absl::string_view data;                ///< The list of its elements; empty: there is none.
  std::optional<uint64_t> binary_bytes;  ///< Its elements are so many bytes behind the JSON.
};

/// Which outputs an answer has behind its JSON.
struct JsonInferForms {
  std::vector<std::optional<bool>> outputs;  ///< Of those that are asked for, as they say; or all.
  bool others = false;                       ///< Those that say nothing.

  bool IsBinary(size_t output) const {
    return output < outputs.size() ? outputs[output].value_or(others) : others;
  }
  bool AnyBinary(size_t count) const {
    for (size_t i = 0; i < count; ++i) {
      if (IsBinary(i)) return true;
    }
    return false;
  }
};

/// What a request's JSON says.
struct JsonInfer {
  InferRequest request;  ///< Without model, names and values.
  std::vector<JsonInferInput> inputs;
  JsonInferForms forms;
};

/// `text` outlives what is returned. Keys that nobody knows are ignored. Errors: kInvalidArgument:
/// it is no such object, or one beyond 2 GiB, a key of it is there twice, or an input has not just
/// one of "data" and the parameter binary_data_size; TakeParameter's.
absl::StatusOr<JsonInfer> ReadJsonInfer(absl::string_view text);

/// The tensor of an input that has `data`: its elements in one list, or in lists as its shape has
/// them. What they may be is said at ReadJsonInputs; a string is text. Errors: kInvalidArgument
/// naming the place, for what does not fit the datatype or the shape; the allocator's.
absl::StatusOr<Tensor> ReadJsonInferInput(const JsonInferInput& input, Allocator& allocator);

/// The body of an answer; `*json_bytes` of it are JSON, and elements of outputs that are binary
/// follow. Errors: CheckDatatypes'; kInvalidArgument of a string that is no UTF-8 in JSON;
/// kResourceExhausted of one beyond 2 GiB.
absl::StatusOr<std::string> WriteJsonInfer(const Prediction& prediction,
                                           const JsonInferForms& forms, size_t* json_bytes);

}  // namespace formwork::server
