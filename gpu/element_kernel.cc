#include "gpu/element_kernel.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/ops/elementwise.h"
#include "core/ops/nn.h"
#include "gpu/cuda_stream.h"
#include "gpu/element_launch.h"
#include "gpu/element_reductions.h"
#include "gpu/register_kernels.h"

namespace formwork {
namespace {

constexpr unsigned kBlock = 256;

absl::StatusOr<std::unique_ptr<const ElementKernel>> Prepared(ElementProgram program) {
  auto kernel = std::make_unique<ElementKernel>(std::move(program));
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  return kernel;
}

// `owner`: of the op; null where that is one of the table's.
absl::StatusOr<KernelFn> MakeElementOf(const KernelInit& init, const ElementOp& op,
                                       std::shared_ptr<const BoundElementOp> owner) {
  const DType dtype = init.input_dtypes()[0];
  if (!op.Takes(dtype)) {
    return Unimplemented(op.name, " of ", DTypeName(dtype), " on a GPU");
  }
  if (!RefusesShapes(init.attrs())) {
    return Unimplemented(op.name, " of shapes that do not broadcast on a GPU");
  }
  FORMWORK_ASSIGN_OR_RETURN(auto kernel, Prepared(ElementProgram::Of(op, dtype)));
  const bool gradient = op.arity == 2 && absl::EndsWith(op.name, "Grad");
  return KernelFn([&op, gradient, kernel = std::move(kernel),
                   owner = std::move(owner)](KernelContext& ctx) -> absl::Status {
    absl::InlinedVector<const Tensor*, 3> inputs;
    for (int i = 0; i < ctx.num_inputs(); ++i) inputs.push_back(&ctx.input(i));
    Tensor alike;  // Of another shape it may be, with as many elements.
    if (gradient) {
      FORMWORK_RETURN_IF_ERROR(
          CheckGradient(op.name, inputs[0]->shape().dims(), inputs[1]->shape().dims()));
      alike = Tensor(*inputs[1]).Reshaped(inputs[0]->shape());
      inputs[1] = &alike;
    }
    FailurePlace place{};
    if (kernel->may_fail()) {
      FORMWORK_ASSIGN_OR_RETURN(place, MayFail(ctx, [](uint64_t /*where*/) {
                                  return InvalidArgument("Integer division by zero");
                                }));
    }
    Tensor out = OutputOf(ctx, 0);
    return kernel->Enqueue(inputs, out, CudaStreamOf(StreamOf(ctx)), place);
  });
}

absl::StatusOr<KernelFn> MakeElement(KernelInit& init) {
  return MakeElementOf(init, *FindElementOp(init.op().name), nullptr);
}

// LeakyRelu and its gradient: alpha, an attr, is a number in the text.
absl::StatusOr<KernelFn> MakeLeakyRelu(KernelInit& init) {
  const std::string& name = init.op().name;
  FORMWORK_ASSIGN_OR_RETURN(float alpha, init.attrs().Get<float>("alpha"));
  if (init.input_dtypes()[0] == DType::kHalf) alpha = static_cast<float>(half(alpha));
  if (init.input_dtypes()[0] == DType::kBfloat16) alpha = static_cast<float>(bfloat16(alpha));
  if (!std::isfinite(alpha)) return Unimplemented(name, " with alpha ", alpha, " on a GPU");
  auto bound =
      std::make_shared<const BoundElementOp>(name, *FindElementOp(absl::StrCat("_", name)), alpha);
  const ElementOp& op = bound->op;
  return MakeElementOf(init, op, std::move(bound));
}

// A sum, for which the biases broadcast: along the last dimension, or along the second one.
absl::StatusOr<KernelFn> MakeBiasAdd(KernelInit& init) {
  const ElementOp& op = *FindElementOp("Add");
  const DType dtype = init.input_dtypes()[0];
  if (!op.Takes(dtype)) return Unimplemented("BiasAdd of ", DTypeName(dtype), " on a GPU");
  FORMWORK_ASSIGN_OR_RETURN(const BiasAttrs attrs, BiasAttrs::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(auto kernel, Prepared(ElementProgram::Of(op, dtype)));
  return KernelFn([attrs, kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    const Tensor& value = ctx.input(0);
    FORMWORK_RETURN_IF_ERROR(
        PrepareBiasAdd(attrs, value.shape().dims(), ctx.input(1).shape().dims()).status());
    Dims dims = {ctx.input(1).dim(0)};
    if (attrs.channels_first) dims.resize(static_cast<size_t>(value.rank()) - 1, 1);
    const Tensor biases = Tensor(ctx.input(1)).Reshaped(Shape::Trusted(dims));
    Tensor out = OutputOf(ctx, 0);
    return kernel->Enqueue({&value, &biases}, out, CudaStreamOf(StreamOf(ctx)));
  });
}

absl::StatusOr<KernelFn> MakeCast(KernelInit& init) {
  if (init.attrs().GetOr<bool>("Truncate", false)) {
    return Unimplemented("Cast that truncates on a GPU");
  }
  const DType from = init.input_dtypes()[0], to = init.output_dtypes()[0];
  if (!TakesInstruction("Cast", {from}, to)) {
    return Unimplemented("Cast of ", DTypeName(from), " to ", DTypeName(to), " on a GPU");
  }
  FORMWORK_ASSIGN_OR_RETURN(auto kernel, Prepared(ElementProgram::OfCast(from, to)));
  return KernelFn([kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    Tensor out = OutputOf(ctx, 0);
    return kernel->Enqueue({&ctx.input(0)}, out, CudaStreamOf(StreamOf(ctx)));
  });
}

absl::StatusOr<KernelFn> MakeGroup(const ElementGroup& group) {
  if (group.reduction.has_value()) return MakeElementReduction(group);
  const size_t num_inputs = group.inputs.size();
  FORMWORK_ASSIGN_OR_RETURN(auto kernel, Prepared(ElementProgram::Of(group)));
  return KernelFn([num_inputs, kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    absl::InlinedVector<const Tensor*, 8> inputs;
    for (size_t i = 0; i < num_inputs; ++i) inputs.push_back(&ctx.input(static_cast<int>(i)));
    absl::InlinedVector<Tensor, 4> outputs, befores;
    for (int k = 0; k < ctx.num_outputs(); ++k) {
      outputs.push_back(OutputOf(ctx, k));
      befores.push_back(ValueBefore(ctx, k));
    }
    return kernel->Enqueue(inputs, absl::MakeSpan(outputs), befores, {EarlierFailure(ctx), 0},
                           CudaStreamOf(StreamOf(ctx)));
  });
}

}  // namespace

absl::Status ElementKernel::Prepare() {
  FORMWORK_ASSIGN_OR_RETURN(library_, CudaLibrary::Of(ElementSource(program_)));
  FORMWORK_ASSIGN_OR_RETURN(wide_, library_->Kernel(kElementsKernel));
  FORMWORK_ASSIGN_OR_RETURN(one_, library_->Kernel(kElementsOneKernel));
  return absl::OkStatus();
}

absl::Status ElementKernel::Enqueue(absl::Span<const Tensor* const> inputs,
                                    absl::Span<Tensor> outputs, absl::Span<const Tensor> befores,
                                    FailurePlace place, cudaStream_t stream) const {
  absl::InlinedVector<ElementInput, 8> from;
  for (const Tensor* input : inputs) from.push_back({input->raw(), &input->shape()});
  // One launch for each shape that outputs have.
  for (size_t first = 0; first < outputs.size(); ++first) {
    const Shape shape = outputs[first].shape();
    const auto has_shape = [&](const Tensor& output) { return output.shape() == shape; };
    if (shape.num_elements() == 0 ||
        std::any_of(outputs.begin(), outputs.begin() + static_cast<ptrdiff_t>(first), has_shape)) {
      continue;
    }
    absl::InlinedVector<ElementOutput, 4> to;
    for (size_t k = 0; k < outputs.size(); ++k) {
      const bool made = has_shape(outputs[k]);
      const bool keeps = made && k < befores.size() && befores[k].has_value();
      to.push_back({made ? outputs[k].mutable_raw() : nullptr, keeps ? befores[k].raw() : nullptr});
    }
    FORMWORK_ASSIGN_OR_RETURN(ElementLaunch launch, ElementLaunch::Make(program_, from, to, shape));
    void* const arguments[] = {launch.argument.data(), &place.word, &place.step};
    FORMWORK_RETURN_IF_ERROR(
        LaunchOver(launch.wide ? wide_ : one_, launch.threads, kBlock, arguments, stream));
  }
  return absl::OkStatus();
}

void RegisterElementKernels(KernelRegistry& registry) {
  registry.SetGroups({&MakeGroup, &TakesInstruction, &TakesReduction});
  registry.Add("BiasAdd", &MakeBiasAdd);
  registry.Add("Cast", &MakeCast);
  registry.Add("LeakyRelu", &MakeLeakyRelu);
  registry.Add("LeakyReluGrad", &MakeLeakyRelu);
  for (const ElementOp& op : ElementOps()) {
    if (op.name[0] != '_') registry.Add(op.name, &MakeElement);
  }
}

}  // namespace formwork
