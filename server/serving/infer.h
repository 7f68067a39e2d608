#pragma once

// The Open Inference Protocol's terms (KServe's version 2, which Triton's clients speak), whether
// they came by gRPC or HTTP: datatypes, parameters, requests.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/serving/model.h"
#include "server/serving/predict.h"

namespace formwork::server {

/// "FP32" and the like; "" where the protocol has no name for it.
absl::string_view DatatypeOf(DType dtype);
/// The same in a model's configuration: "TYPE_FP32".
std::string ConfigTypeOf(DType dtype);
/// Errors: kInvalidArgument where there is no such datatype.
absl::StatusOr<DType> DTypeFromDatatype(absl::string_view datatype);

/// "" where it is 0.
std::string VersionTextOf(uint64_t version);

/// A request for an inference.
struct InferRequest {
  ModelSpec model;
  std::string id;  ///< Its client's name for it.
  absl::Duration timeout = absl::InfiniteDuration();
  std::vector<std::string> names;
  std::vector<Tensor> values;        ///< One for each name.
  std::vector<std::string> outputs;  ///< That are asked for; none: all.
};

/// Errors: kInvalidArgument where it is longer than any client's is: each answer has it.
absl::Status SetRequestId(std::string id, InferRequest* request);

/// What has parameters.
enum class ParameterOf : uint8_t { kRequest, kInput, kOutput };

/// A parameter's value, as far as it matters.
struct ParameterValue {
  bool is_set = false;  ///< It is not false, 0 or "".
  int64_t number = 0;   ///< Of integers.
};

/// Takes a parameter of a request, or of its input or output `owner`: keeps `timeout` (of
/// microseconds); those that ask for nothing that would be missed, as `priority`, are passed over,
/// and so are those that nobody knows. Errors: kUnimplemented naming one that asks for what is not
/// there; kInvalidArgument of a timeout that is none.
absl::Status TakeParameter(ParameterOf of, absl::string_view owner, absl::string_view name,
                           const ParameterValue& value, InferRequest* request);

/// Errors: kInvalidArgument naming an output whose dtype the protocol has no name for.
absl::Status CheckDatatypes(const Prediction& prediction);

/// What there is in the place of what is not answered.
inline constexpr char kInsteadOfStatistics[] = "/metrics";
inline constexpr char kInsteadOfLoading[] = "formwork.v1's LoadSavedModel (formwork load)";
inline constexpr char kInsteadOfUnloading[] = "formwork.v1's Unregister (formwork rm)";
inline constexpr char kInsteadOfSharedMemory[] = "raw contents, which are copied once";
inline constexpr char kInsteadOfTraces[] = "a timeline of each call that asks for it (formwork.v1)";
inline constexpr char kInsteadOfLogSettings[] = "--log-level and --log-format";

}  // namespace formwork::server
