#include "core/ops/epilogue.h"

#include <string>
#include <vector>

#include "core/base/status.h"

namespace formwork {
namespace {

constexpr char kStepsAttr[] = "_epilogue";
constexpr char kWeightsAttr[] = "_weights";
// By Activation; the ops' names.
constexpr const char* kActivations[] = {"", "Relu", "Relu6", "Gelu"};

}  // namespace

void Epilogue::AddTo(AttrMap& attrs) const {
  std::vector<std::string> steps;
  if (scale) steps.push_back("Mul");
  if (bias) steps.push_back("BiasAdd");
  if (residual) steps.push_back("Add");
  if (activation != Activation::kNone) {
    steps.push_back(kActivations[static_cast<int>(activation)]);
  }
  attrs.Set(kStepsAttr, std::move(steps));
}

absl::StatusOr<Epilogue> Epilogue::FromAttrs(const AttrMap& attrs, size_t num_inputs) {
  Epilogue epilogue;
  for (const std::string& step : attrs.GetOr(kStepsAttr, std::vector<std::string>())) {
    epilogue.scale = epilogue.scale || step == "Mul";
    epilogue.bias = epilogue.bias || step == "BiasAdd";
    epilogue.residual = epilogue.residual || step == "Add";
    for (Activation a : {Activation::kRelu, Activation::kRelu6, Activation::kGelu}) {
      if (step == kActivations[static_cast<int>(a)]) epilogue.activation = a;
    }
  }
  if (num_inputs != 2 + static_cast<size_t>(epilogue.num_operands())) {
    return Internal("inputs are not those of the epilogue: inputs=", num_inputs);
  }
  return epilogue;
}

bool ByWeights(const AttrMap& attrs) { return attrs.GetOr(kWeightsAttr, false); }
void SetByWeights(AttrMap& attrs) { attrs.Set(kWeightsAttr, true); }

}  // namespace formwork
