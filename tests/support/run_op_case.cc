#include "tests/support/run_op_case.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "core/device/host_allocator.h"
#include "core/ops/shape_inference.h"
#include "tests/support/guarded_allocator.h"
#include "tests/support/op_case_objects.h"

namespace formwork::testing {
namespace {

std::string BytesOf(const Tensor& tensor) {
  if (!IsPlainData(tensor.dtype())) return "";
  return std::string(static_cast<const char*>(tensor.raw()), tensor.bytes());
}

absl::Status CheckOutputs(const OpCase& op_case, const std::vector<Tensor>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    absl::Status status = CompareValue(op_case.outputs[i], outputs[i], op_case.tolerance);
    if (!status.ok()) return FailedPrecondition("output ", i, ": ", status.message());
  }
  return absl::OkStatus();
}

absl::Status CheckError(const OpCase& op_case, const absl::Status& got) {
  if (got.code() != op_case.error || !absl::StrContains(got.message(), op_case.error_text)) {
    return FailedPrecondition("expected ", absl::StatusCodeToString(op_case.error), " \"",
                              op_case.error_text, "\", got ", got.ToString());
  }
  return absl::OkStatus();
}

struct Registries {
  const OpRegistry& ops;
  const KernelRegistry& kernels;
};

absl::StatusOr<Tensor> MakeInput(const ValueText& text, CaseResources& resources,
                                 Allocator& allocator) {
  if (text.dtype == DType::kResource) return resources.Add(text);
  return MakeValue(text, allocator);
}

absl::Status CheckResources(const OpCase& op_case, CaseResources& resources) {
  size_t next = 0;
  for (const ValueText& input : op_case.inputs) {
    if (input.dtype != DType::kResource) continue;
    if (!op_case.after.empty() && next == op_case.after.size()) {
      return InvalidArgument("the case does not say what resource ", next, " is afterwards");
    }
    const ValueText& expected = op_case.after.empty() ? input : op_case.after[next];
    const absl::Status status = resources.Compare(next, expected, op_case.tolerance);
    if (!status.ok()) return FailedPrecondition("resource ", next, ": ", status.message());
    ++next;
  }
  return absl::OkStatus();
}

// Runs the kernel once. `owned`: it may take the inputs over.
absl::Status RunOnce(const OpCase& op_case, const Registries& registries, const KernelFn& kernel,
                     size_t num_outputs, bool owned) {
  GuardedAllocator allocator;
  absl::Status verdict;
  {
    CaseResources resources(registries.ops, registries.kernels, allocator);
    std::vector<Tensor> inputs;
    std::vector<std::string> before;
    for (const ValueText& text : op_case.inputs) {
      FORMWORK_ASSIGN_OR_RETURN(Tensor input, MakeInput(text, resources, allocator));
      if (!owned) before.push_back(BytesOf(input));
      inputs.push_back(std::move(input));
    }
    std::vector<InputRef> refs;
    for (const Tensor& input : inputs) refs.push_back({&input, owned});
    std::vector<Tensor> outputs(num_outputs);
    StopFlag stop;
    CaseScope scope(allocator, resources.access(), stop);
    KernelContext context(scope, refs, absl::MakeSpan(outputs));
    absl::Status status = kernel(context);
    if (op_case.error != absl::StatusCode::kOk) {
      verdict = CheckError(op_case, status);
    } else if (!status.ok()) {
      verdict = FailedPrecondition("the kernel failed: ", status.ToString());
    } else {
      verdict = CheckOutputs(op_case, outputs);
    }
    if (verdict.ok()) verdict = CheckResources(op_case, resources);
    for (size_t i = 0; i < before.size() && verdict.ok(); ++i) {
      const bool changed_list = inputs[i].dtype() == DType::kVariant &&
                                !CompareValue(op_case.inputs[i], inputs[i], std::nullopt).ok();
      if (BytesOf(inputs[i]) != before[i] || changed_list) {
        verdict = FailedPrecondition("the kernel wrote into input ", i, ", which others hold");
      }
    }
    if (verdict.ok() && !allocator.GuardsHold()) {
      verdict = FailedPrecondition("the kernel wrote outside of a buffer");
    }
  }
  if (verdict.ok() && !allocator.GuardsHold()) {
    verdict = FailedPrecondition("the kernel wrote outside of a buffer that it has freed");
  }
  if (verdict.ok() && allocator.live_blocks() != 0) {
    verdict = FailedPrecondition("the kernel holds on to a buffer");
  }
  return owned ? Annotate(verdict, "inputs that may be overwritten") : verdict;
}

// Of the inputs: of kHalf every second dimension, of kRanks none, and the values of both.
enum class Known { kAll, kHalf, kRanks, kShapes, kElements, kNothing };

absl::string_view NameOf(Known known) {
  switch (known) {
    case Known::kAll:
      return "all known";
    case Known::kHalf:
      return "values and half of the dimensions known";
    case Known::kRanks:
      return "values and ranks known";
    case Known::kShapes:
      return "shapes known";
    case Known::kElements:
      return "shapes and half of the elements known";
    case Known::kNothing:
      return "nothing known";
  }
  return "";
}

PartialShape AsKnown(PartialShape shape, Known known) {
  if (known == Known::kNothing) return PartialShape::Unknown();
  for (int d = 0; d < shape.rank(); ++d) {
    if (known == Known::kRanks || (known == Known::kHalf && d % 2 == 0)) shape.set_dim(d, -1);
  }
  return shape;
}

// Of each vector that may hold sizes, as where they are computed from dimensions.
void SetHalfOfElements(const std::vector<Tensor>& values, InferenceContext& context) {
  for (size_t i = 0; i < values.size(); ++i) {
    const Tensor& value = values[i];
    if (!value.has_value() || value.rank() != 1 || value.num_elements() > kMaxRank ||
        (value.dtype() != DType::kInt32 && value.dtype() != DType::kInt64)) {
      continue;
    }
    Dims elements = *IntegersOf(value, "elements");
    for (size_t k = 0; k < elements.size(); ++k) {
      elements[k] = k % 2 == 0 ? -1 : std::max<int64_t>(elements[k], -1);
    }
    context.set_elements(static_cast<int>(i), std::move(elements));
  }
}

absl::Status CheckShapes(const OpCase& op_case, const OpDef& op, const AttrMap& attrs,
                         const std::vector<DType>& dtypes, Known known) {
  std::vector<Tensor> values;
  std::vector<PartialShape> shapes;
  for (const ValueText& text : op_case.inputs) {
    Tensor& value = values.emplace_back();
    PartialShape shape = text.shape;
    if (text.dtype == DType::kResource) {
      FORMWORK_ASSIGN_OR_RETURN(const ResourceText resource, ParseResource(text));
      shape = resource.type.is_variable() ? resource.type.parts[0].shape : PartialShape::Unknown();
    } else if (text.dtype != DType::kVariant) {
      FORMWORK_ASSIGN_OR_RETURN(value, MakeValue(text, ProcessAllocator()));
    }
    shapes.push_back(AsKnown(std::move(shape), known));
  }
  std::vector<const Tensor*> constants;
  for (const Tensor& value : values) {
    const bool values_known = known < Known::kShapes && value.has_value();
    constants.push_back(values_known ? &value : nullptr);
  }
  InferenceContext context(attrs, std::move(shapes), std::move(constants), dtypes,
                           static_cast<int>(op_case.outputs.size()));
  if (known == Known::kElements) SetHalfOfElements(values, context);
  const absl::string_view what = NameOf(known);
  absl::Status status = op.shape_fn(context);
  if (!status.ok()) {
    return FailedPrecondition("the shape function (", what, ") failed: ", status.ToString());
  }
  for (size_t i = 0; i < op_case.outputs.size(); ++i) {
    if (!context.outputs()[i].Accepts(op_case.outputs[i].shape)) {
      return FailedPrecondition("the shape function (", what, ") says ",
                                context.outputs()[i].ToString(), " of output ", i, ", which has ",
                                op_case.outputs[i].shape.ToString());
    }
  }
  return absl::OkStatus();
}

}  // namespace

namespace {

// A case's kernel, and what it was made of.
struct CaseKernel {
  const OpDef* op = nullptr;
  AttrMap attrs;
  std::vector<DType> inputs, outputs;
  absl::StatusOr<KernelFn> kernel;  // The factory's error, which a case may expect.
};

absl::StatusOr<CaseKernel> MakeCaseKernel(const OpCase& op_case, const OpRegistry& ops,
                                          const KernelRegistry& kernels) {
  CaseKernel made;
  made.op = ops.Find(op_case.op);
  if (made.op == nullptr) return NotFound("no such op: ", op_case.op);
  const KernelFactory factory = kernels.Find(op_case.op);
  if (factory == nullptr) return NotFound("no kernel for ", op_case.op);
  FORMWORK_ASSIGN_OR_RETURN(made.attrs, TypedAttrs(op_case, *made.op));
  FORMWORK_ASSIGN_OR_RETURN(made.inputs, ArgDTypes(made.op->inputs, made.attrs));
  FORMWORK_ASSIGN_OR_RETURN(made.outputs, ArgDTypes(made.op->outputs, made.attrs));
  if (made.inputs.size() != op_case.inputs.size()) {
    return InvalidArgument(made.op->name, " takes ", made.inputs.size(), " inputs, the case has ",
                           op_case.inputs.size());
  }
  for (size_t i = 0; i < made.inputs.size(); ++i) {
    if (made.inputs[i] != op_case.inputs[i].dtype) {
      return InvalidArgument("input ", i, " is to be ", DTypeName(made.inputs[i]));
    }
  }
  CaseInit init(*made.op, made.attrs, made.inputs, made.outputs);
  made.kernel = factory(init);
  return made;
}

}  // namespace

absl::Status RunOpCase(const OpCase& op_case, const OpRegistry& ops,
                       const KernelRegistry& kernels) {
  FORMWORK_ASSIGN_OR_RETURN(const CaseKernel made, MakeCaseKernel(op_case, ops, kernels));
  const bool fails = op_case.error != absl::StatusCode::kOk;
  if (!fails && made.outputs.size() != op_case.outputs.size()) {
    return InvalidArgument(made.op->name, " gives ", made.outputs.size(), " outputs, the case has ",
                           op_case.outputs.size());
  }
  if (!made.kernel.ok()) {
    if (fails) return CheckError(op_case, made.kernel.status());
    return FailedPrecondition("the factory failed: ", made.kernel.status().ToString());
  }
  FORMWORK_RETURN_IF_ERROR(
      RunOnce(op_case, {ops, kernels}, *made.kernel, made.outputs.size(), false));
  FORMWORK_RETURN_IF_ERROR(
      RunOnce(op_case, {ops, kernels}, *made.kernel, made.outputs.size(), true));
  if (fails || made.op->shape_fn == nullptr) return absl::OkStatus();
  for (Known known : {Known::kAll, Known::kHalf, Known::kRanks, Known::kShapes, Known::kElements,
                      Known::kNothing}) {
    FORMWORK_RETURN_IF_ERROR(CheckShapes(op_case, *made.op, made.attrs, made.inputs, known));
  }
  return absl::OkStatus();
}

namespace {

// A case's inputs, made once, and runs of its kernel on them.
class CaseRuns {
 public:
  CaseRuns(const OpRegistry& ops, const KernelRegistry& kernels, Allocator& allocator)
      : allocator_(allocator), resources_(ops, kernels, allocator) {}
  absl::Status Prepare(const OpCase& op_case, const OpRegistry& ops,
                       const KernelRegistry& kernels) {
    FORMWORK_ASSIGN_OR_RETURN(made_, MakeCaseKernel(op_case, ops, kernels));
    FORMWORK_RETURN_IF_ERROR(made_.kernel.status());
    for (const ValueText& text : op_case.inputs) {
      FORMWORK_ASSIGN_OR_RETURN(Tensor input, MakeInput(text, resources_, allocator_));
      inputs_.push_back(std::move(input));
    }
    for (const Tensor& input : inputs_) refs_.push_back({&input, false});
    return absl::OkStatus();
  }

  absl::Status Run(StopFlag& stop) {
    std::vector<Tensor> outputs(made_.outputs.size());
    CaseScope scope(allocator_, resources_.access(), stop);
    KernelContext context(scope, refs_, absl::MakeSpan(outputs));
    const StopScope stopped(&stop);
    const absl::Status status = (*made_.kernel)(context);
    ended_ = absl::Now();
    return status;
  }
  /// When the kernel of the latest run returned: what it gave was still there.
  absl::Time ended() const { return ended_; }

 private:
  Allocator& allocator_;
  CaseResources resources_;
  CaseKernel made_;
  std::vector<Tensor> inputs_;
  std::vector<InputRef> refs_;
  absl::Time ended_;
};

}  // namespace

absl::Status RunForStatus(const OpCase& op_case, const OpRegistry& ops,
                          const KernelRegistry& kernels) {
  CaseRuns runs(ops, kernels, ProcessAllocator());
  FORMWORK_RETURN_IF_ERROR(runs.Prepare(op_case, ops, kernels));
  StopFlag stop;
  return runs.Run(stop);
}

absl::Status RunStoppedCase(const OpCase& op_case, const OpRegistry& ops,
                            const KernelRegistry& kernels) {
  GuardedAllocator allocator;
  CaseRuns runs(ops, kernels, allocator);
  FORMWORK_RETURN_IF_ERROR(runs.Prepare(op_case, ops, kernels));
  StopFlag stop;
  stop.Cancel();
  const absl::Status status = runs.Run(stop);
  if (!stop.cut()) return FailedPrecondition("the kernel ran to its end: ", status.ToString());
  if (!allocator.GuardsHold()) return FailedPrecondition("the kernel wrote outside of a buffer");
  return absl::OkStatus();
}

absl::Status RunLateCase(const OpCase& op_case, const OpRegistry& ops,
                         const KernelRegistry& kernels) {
  CaseRuns runs(ops, kernels, ProcessAllocator());
  FORMWORK_RETURN_IF_ERROR(runs.Prepare(op_case, ops, kernels));
  absl::Time start = absl::Now();
  StopFlag never;
  FORMWORK_RETURN_IF_ERROR(runs.Run(never));
  const absl::Duration whole = runs.ended() - start;
  // What a busy machine's scheduler takes from a short case is no part of its work.
  const absl::Duration limit = std::max(0.3 * whole, absl::Milliseconds(200));
  for (double part : {0.1, 0.5}) {
    absl::Duration late;
    // Machines are noisy: the best of a few.
    for (int attempt = 0; attempt < 5; ++attempt) {
      start = absl::Now();
      StopFlag stop(start + part * whole);
      runs.Run(stop).IgnoreError();
      late = runs.ended() - stop.deadline();
      if (late < limit) break;
    }
    if (late >= limit) {
      return FailedPrecondition("a deadline at ", part, " of ", absl::FormatDuration(whole),
                                " ended it ", absl::FormatDuration(late), " late");
    }
  }
  return absl::OkStatus();
}

}  // namespace formwork::testing
