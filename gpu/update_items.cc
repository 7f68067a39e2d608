#include "gpu/update_items.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "core/base/status.h"
#include "gpu/element_access_text.h"
#include "gpu/element_source.h"
#include "gpu/item_source.h"
#include "gpu/training_rules_text.h"
#include "gpu/update_functions_text.h"

namespace formwork {
namespace {

constexpr OptimizerOp kOps[] = {
    {"ResourceApplyGradientDescent", "GradientDescent<$0>", "", "", 1, 1},
    {"ResourceApplyAdam", "Adam<$0, false>", "Adam<$0, true>", "use_nesterov", 3, 6},
    {"ResourceApplyMomentum", "Momentum<$0, false>", "Momentum<$0, true>", "use_nesterov", 2, 2},
    {"ResourceApplyKerasMomentum", "KerasMomentum<$0, false>", "KerasMomentum<$0, true>",
     "use_nesterov", 2, 2},
    {"ResourceApplyAdadelta", "Adadelta<$0>", "", "", 3, 3},
    {"ResourceApplyAdagrad", "Adagrad<$0>", "", "", 2, 1},
    {"ResourceApplyAdagradV2", "AdagradV2<$0>", "", "", 2, 2},
    {"ResourceApplyRMSProp", "RmsProp<$0>", "", "", 3, 4},
    {"ResourceApplyCenteredRMSProp", "CenteredRmsProp<$0>", "", "", 4, 4},
    {"ResourceApplyAdaMax", "AdaMax<$0>", "", "", 3, 5},
    {"ResourceApplyFtrl", "Ftrl<$0, false>", "Ftrl<$0, true>", "multiply_linear_by_lr", 3, 4},
    {"ResourceApplyProximalGradientDescent", "ProximalGradientDescent<$0>", "", "", 1, 3},
    {"ResourceApplyProximalAdagrad", "ProximalAdagrad<$0>", "", "", 2, 3},
};

// The host's names for the functions that the rules use.
constexpr char kStd[] = R"(
namespace std {
using ::abs;
using ::copysign;
using ::pow;
using ::sqrt;
template <typename T>
__device__ __forceinline__ T max(T a, T b) {
  return a < b ? b : a;
}
}  // namespace std
#define FORMWORK_RULE_INLINE __device__ __forceinline__
)";

}  // namespace

absl::Span<const OptimizerOp> OptimizerOps() { return kOps; }

absl::StatusOr<std::string> OptimizerItemName(const OptimizerOp& op, DType dtype,
                                              const AttrMap& attrs) {
  if (!IsFloating(dtype) || ElementTypeName(dtype).empty()) {
    return Unimplemented(op.op, " of ", DTypeName(dtype), " on a GPU");
  }
  const bool other = !op.chosen_by.empty() && attrs.GetOr<bool>(op.chosen_by, false);
  const absl::string_view computes = dtype == DType::kDouble ? "double" : "float";
  return absl::StrCat("OptimizerItem<", ElementTypeName(dtype), ", formwork::training::",
                      absl::Substitute(other ? op.other : op.rule, computes), ">");
}

absl::StatusOr<std::string> UpdateItemName(DType dtype, bool subtracts) {
  if (ElementTypeName(dtype).empty() || dtype == DType::kBool) {
    return Unimplemented("AssignAdd or AssignSub of ", DTypeName(dtype), " on a GPU");
  }
  return absl::StrCat("UpdateItem<", ElementTypeName(dtype), ", ", subtracts ? "SubFrom" : "AddTo",
                      ">");
}

std::string UpdateSource(absl::string_view item) {
  return ItemSource(
      item, absl::StrCat(kElementAccessText, kStd, kTrainingRulesText, kUpdateFunctionsText));
}

}  // namespace formwork
