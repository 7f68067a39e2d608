#pragma once

// Models as the Open Inference Protocol calls and describes them.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/engine.h"
#include "server/serving/infer.h"
#include "server/serving/model.h"
#include "server/serving/predict.h"

namespace formwork::server {

/// The call that a request asks for. Errors: FindModel's, MakePredictCall's; they name the model.
absl::StatusOr<PredictCall> MakeInferCall(Engine& engine, InferRequest request);

inline constexpr char kServerName[] = "formwork";
inline constexpr char kPlatform[] = "formwork";
/// Of the protocol's, those that are there as a whole.
inline constexpr const char* kExtensions[] = {"binary_tensor_data", "model_configuration"};
/// The state of every model that is listed.
inline constexpr char kReadyState[] = "READY";

/// Errors: kUnimplemented where a request for the index names a repository.
absl::Status CheckRepository(absl::string_view name);

/// A model as metadata and configuration describe it.
struct InferModel {
  struct Value {
    std::string name;
    DType dtype;
    Dims shape;  ///< -1: any size; [-1] also of any rank.
  };
  std::string name;
  uint64_t version = 0;
  std::vector<Value> inputs, outputs;
  int64_t max_batch_rows = 0;  ///< 0: its calls run each alone.

  int32_t max_batch_size() const {
    return static_cast<int32_t>(
        std::min<int64_t>(max_batch_rows, std::numeric_limits<int32_t>::max()));
  }
  /// A value's dimensions as a configuration has them: without rows where these are batched.
  absl::Span<const int64_t> ConfigDims(const Value& value) const {
    const size_t rows = max_batch_rows > 0 && !value.shape.empty() ? 1 : 0;
    return absl::MakeConstSpan(value.shape).subspan(rows);
  }
};

/// Errors: FindModel's.
absl::StatusOr<InferModel> DescribeModel(Engine& engine, const ModelSpec& model);

/// All models of a namespace: name and version; of each the latest function. By name.
std::vector<ModelSpec> ListModels(Engine& engine, const std::string& name_space);

}  // namespace formwork::server
