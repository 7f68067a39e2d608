#pragma once

// Op cases: one call of one op with its inputs and what TensorFlow answers, as text.
//
//   # a comment
//   op MatMul T=float transpose_b=true
//   in  float[2,3] 1 2 3  4 5 6
//   in  float[2,3] uniform(-1,1) seed=3
//   tolerance rel 1e-5 abs 1e-6
//   out float[2,2] 4 2  10 5
//
// A line that begins with a blank continues the one before. tests/ops/README.md describes the
// format.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/device/buffer.h"
#include "core/ops/op_def.h"
#include "core/tensor/tensor.h"

namespace formwork::testing {

/// How far a result may be from what is expected: |got - want| <= abs + rel * |want| for every
/// element; with nmse, the sum of squared differences over the sum of squares instead.
struct Tolerance {
  double rel = 0;
  double abs = 0;
  std::optional<double> nmse;
};

/// The default: rel 1e-5 abs 1e-6 for float, 1e-10 and 1e-12 for double, 2e-3 and 1e-4 for half,
/// 1.6e-2 and 1e-3 for bfloat16, exact for all else.
Tolerance DefaultTolerance(DType dtype);

/// Values as a case writes them, not yet in any memory.
struct ValueText {
  DType dtype = DType::kInvalid;
  Shape shape;
  std::vector<std::string> tokens;  ///< Elements, or a maker: zeros, uniform(-1,1) seed=3.
};

struct OpCase {
  std::string file;
  int line = 0;
  std::string op;
  std::vector<std::pair<std::string, std::string>> attrs;  ///< As written.
  std::vector<ValueText> inputs;
  std::vector<ValueText> outputs;
  /// What the resources among the inputs are afterwards, in order. Empty: what they were.
  std::vector<ValueText> after;
  std::optional<Tolerance> tolerance;
  absl::StatusCode error = absl::StatusCode::kOk;
  std::string error_text;  ///< A part of the expected message.
};

/// Errors: kInvalidArgument naming file and line.
absl::StatusOr<std::vector<OpCase>> ParseOpCases(absl::string_view file, absl::string_view text);

/// The value in memory of `allocator`; no handle.
absl::StatusOr<Tensor> MakeValue(const ValueText& text, Allocator& allocator);

/// Compares a result with what the case expects: dtype, shape, elements (all, the sampled ones, or
/// none for `any`). Errors: kFailedPrecondition that names the first difference.
absl::Status CompareValue(const ValueText& expected, const Tensor& got,
                          const std::optional<Tolerance>& tolerance);

/// The case's attrs typed by the op, defaults filled in, type and number attrs that are not
/// written taken from the inputs.
absl::StatusOr<AttrMap> TypedAttrs(const OpCase& op_case, const OpDef& op);

/// The dtypes of args under attrs, lists laid out flat.
absl::StatusOr<std::vector<DType>> ArgDTypes(const std::vector<ArgDef>& args, const AttrMap& attrs);

}  // namespace formwork::testing
