#include "core/ops/element_group.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/ops/dims.h"
#include "core/ops/elementwise.h"

namespace formwork {
namespace {

absl::StatusOr<Dims> ResultOf(absl::string_view op,
                              absl::Span<const absl::Span<const int64_t>> operands) {
  Dims dims(operands[0].begin(), operands[0].end());
  if (operands.size() == 1) return dims;
  if (operands.size() == 3) {
    if (op == "SelectV2") return PrepareSelectV2(operands[0], operands[1], operands[2]);
    FORMWORK_RETURN_IF_ERROR(CheckClip(operands[0], operands[1], operands[2]));
    return dims;
  }
  if (absl::EndsWith(op, "Grad")) {
    FORMWORK_RETURN_IF_ERROR(CheckGradient(op, operands[0], operands[1]));
    if (operands[0] == operands[1]) return dims;  // Else they have as many elements.
  }
  std::optional<Dims> both = BroadcastDims(operands[0], operands[1]);
  if (both) return *std::move(both);
  return InvalidArgument("Incompatible shapes: ", DimsText(operands[0]), " vs. ",
                         DimsText(operands[1]));
}

}  // namespace

absl::InlinedVector<DType, 3> ElementGroup::operand_dtypes(const Instruction& instruction) const {
  absl::InlinedVector<DType, 3> dtypes;
  for (const uint16_t operand : instruction.operands) dtypes.push_back(dtype(operand));
  return dtypes;
}

absl::Status ElementGroup::OutputShapes(absl::Span<const Shape* const> of_inputs,
                                        absl::Span<Shape> of_outputs) const {
  FORMWORK_RETURN_IF_ERROR(ElementShapes(of_inputs, of_outputs));
  if (!reduction.has_value()) return absl::OkStatus();
  const auto reduced = [&]() -> absl::StatusOr<Shape> {
    FORMWORK_ASSIGN_OR_RETURN(
        const ReductionGeometry geometry,
        PrepareReduction(reduction->attrs, of_outputs[0].dims(), reduction->axes));
    return Shape::Make(geometry.output);
  };
  absl::StatusOr<Shape> shape = reduced();
  if (!shape.ok()) {
    return Annotate(shape.status(), absl::StrCat("node '", reduction->node, "'"));
  }
  of_outputs[0] = *std::move(shape);
  return absl::OkStatus();
}

absl::Status ElementGroup::ElementShapes(absl::Span<const Shape* const> of_inputs,
                                         absl::Span<Shape> of_outputs) const {
  const bool equal = std::all_of(of_inputs.begin(), of_inputs.end(),
                                 [&](const Shape* shape) { return *shape == *of_inputs[0]; });
  if (equal) {
    std::fill(of_outputs.begin(), of_outputs.end(), *of_inputs[0]);
    return absl::OkStatus();
  }
  absl::InlinedVector<Dims, 16> results;
  results.reserve(instructions.size());  // Operands are views of them.
  for (const Instruction& instruction : instructions) {
    absl::InlinedVector<absl::Span<const int64_t>, 3> operands;
    for (const uint16_t operand : instruction.operands) {
      operands.push_back(operand < inputs.size()
                             ? of_inputs[operand]->dims()
                             : absl::MakeConstSpan(results[operand - inputs.size()]));
    }
    absl::StatusOr<Dims> result = ResultOf(instruction.op, operands);
    if (!result.ok()) {
      return Annotate(result.status(), absl::StrCat("node '", instruction.node, "'"));
    }
    results.push_back(*std::move(result));
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    const size_t made = outputs[k] - inputs.size();
    absl::StatusOr<Shape> shape = Shape::Make(results[made]);
    if (!shape.ok()) {
      return Annotate(shape.status(), absl::StrCat("node '", instructions[made].node, "'"));
    }
    of_outputs[k] = *std::move(shape);
  }
  return absl::OkStatus();
}

const OpDef& ElementGroupOp(const ElementGroup& group) {
  static const OpDef* const ops = [] {
    auto* const made = new OpDef[3];
    made[0].name = "fused";
    made[1].name = "fused_store";
    made[1].effect = Effect::kWrite;
    made[2].name = "fused_reduce";
    return made;
  }();
  return ops[group.reduction.has_value() ? 2 : !group.stores.empty() ? 1 : 0];
}

}  // namespace formwork
