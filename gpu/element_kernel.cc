#include "gpu/element_kernel.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/ops/elementwise.h"
#include "core/ops/nn.h"
#include "gpu/cuda_kernel.h"
#include "gpu/cuda_stream.h"
#include "gpu/register_kernels.h"

namespace formwork {
namespace {

constexpr unsigned kBlock = 256;

absl::StatusOr<KernelFn> MakeElement(KernelInit& init) {
  const ElementOp& op = *FindElementOp(init.op().name);
  const DType dtype = init.input_dtypes()[0];
  if (!op.Takes(dtype)) {
    return Unimplemented(op.name, " of ", DTypeName(dtype), " on a GPU");
  }
  if (!RefusesShapes(init.attrs())) {
    return Unimplemented(op.name, " of shapes that do not broadcast on a GPU");
  }
  auto kernel = std::make_unique<ElementKernel>(op, dtype);
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
  const bool gradient = op.arity == 2 && absl::EndsWith(op.name, "Grad");
  return KernelFn([&op, gradient, kernel = std::move(kernel)](KernelContext& ctx) -> absl::Status {
    absl::InlinedVector<const Tensor*, 3> inputs;
    for (int i = 0; i < ctx.num_inputs(); ++i) inputs.push_back(&ctx.input(i));
    if (gradient) {
      FORMWORK_RETURN_IF_ERROR(
          CheckGradient(op.name, inputs[0]->shape().dims(), inputs[1]->shape().dims()));
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

// A sum, for which the biases broadcast: along the last dimension, or along the second one.
absl::StatusOr<KernelFn> MakeBiasAdd(KernelInit& init) {
  const ElementOp& op = *FindElementOp("Add");
  const DType dtype = init.input_dtypes()[0];
  if (!op.Takes(dtype)) return Unimplemented("BiasAdd of ", DTypeName(dtype), " on a GPU");
  FORMWORK_ASSIGN_OR_RETURN(const BiasAttrs attrs, BiasAttrs::FromAttrs(init.attrs()));
  auto kernel = std::make_unique<ElementKernel>(op, dtype);
  FORMWORK_RETURN_IF_ERROR(kernel->Prepare());
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

}  // namespace

absl::Status ElementKernel::Prepare() { return Form(0).status(); }

absl::StatusOr<cudaKernel_t> ElementKernel::Form(unsigned form) {
  const cudaKernel_t known = forms_[form].load(std::memory_order_acquire);
  if (known != nullptr) return known;
  const bool strided = form == kStridedForm;
  const std::string text = ElementSource(
      op_, dtype_, strided ? ElementOrder::kStrided : ElementOrder::kFlat, strided ? 0 : form);
  FORMWORK_ASSIGN_OR_RETURN(const cudaKernel_t kernel, CudaKernelOf(text, kElementKernel));
  forms_[form].store(kernel, std::memory_order_release);
  return kernel;
}

absl::Status ElementKernel::Enqueue(absl::Span<const Tensor* const> inputs, Tensor& out,
                                    cudaStream_t stream, FailurePlace place) {
  uint64_t n = static_cast<uint64_t>(out.num_elements());
  if (n == 0) return absl::OkStatus();
  unsigned form = 0;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const int64_t elements = inputs[k]->num_elements();
    if (elements == out.num_elements()) continue;  // It broadcasts, so nothing is repeated.
    if (elements == 1 && form != kStridedForm) {
      form |= 1u << k;
    } else {
      form = kStridedForm;
    }
  }
  FORMWORK_ASSIGN_OR_RETURN(const cudaKernel_t kernel, Form(form));
  const void* operands[3] = {};
  void* result = out.mutable_raw();
  absl::InlinedVector<void*, 8> arguments;
  for (size_t k = 0; k < inputs.size(); ++k) {
    operands[k] = inputs[k]->raw();
    arguments.push_back(&operands[k]);
  }
  arguments.push_back(&result);
  arguments.push_back(&n);
  const auto add_place = [&] {
    if (!may_fail()) return;
    arguments.push_back(&place.word);
    arguments.push_back(&place.step);
  };
  if (form != kStridedForm) {
    add_place();
    return LaunchOver(kernel, n / static_cast<uint64_t>(ElementsPerThread(op_, dtype_)) + 1, kBlock,
                      arguments, stream);
  }
  FORMWORK_ASSIGN_OR_RETURN(ElementStrides strides, StridesOf(inputs, out.shape()));
  arguments.push_back(&strides);
  add_place();
  return LaunchOver(kernel, n, kBlock, arguments, stream);
}

// Neighbouring dimensions in which every operand goes on in the same way are one.
absl::StatusOr<ElementStrides> ElementKernel::StridesOf(absl::Span<const Tensor* const> inputs,
                                                        const Shape& out) const {
  if (out.num_elements() > std::numeric_limits<int32_t>::max()) {
    return Unimplemented(op_.name, " of ", out.num_elements(),
                         " elements, of which some are repeated, on a GPU");
  }
  ElementStrides strides{};
  uint32_t reached[3] = {1, 1, 1};  // Elements of each operand in the dimensions so far.
  bool repeated_before[3] = {};
  for (int d = 0; d < out.rank(); ++d) {  // From the last one.
    const int64_t dim = out.dim(out.rank() - 1 - d);
    if (dim == 1) continue;
    bool repeated[3] = {};
    bool as_before = strides.rank > 0;
    for (size_t k = 0; k < inputs.size(); ++k) {
      const Shape& shape = inputs[k]->shape();
      repeated[k] = d >= shape.rank() || shape.dim(shape.rank() - 1 - d) == 1;
      as_before = as_before && repeated[k] == repeated_before[k];
    }
    if (as_before) {
      strides.dims[strides.rank - 1] *= static_cast<uint32_t>(dim);
    } else {
      if (strides.rank == ElementStrides::kMostDims) {
        return Unimplemented(op_.name, ": a broadcast of more than ", ElementStrides::kMostDims,
                             " dimensions on a GPU");
      }
      strides.dims[strides.rank] = static_cast<uint32_t>(dim);
      for (size_t k = 0; k < inputs.size(); ++k) {
        strides.strides[k][strides.rank] = repeated[k] ? 0 : reached[k];
        repeated_before[k] = repeated[k];
      }
      ++strides.rank;
    }
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (!repeated[k]) reached[k] *= static_cast<uint32_t>(dim);
    }
  }
  return strides;
}

void RegisterElementKernels(KernelRegistry& registry) {
  registry.Add("BiasAdd", &MakeBiasAdd);
  for (const ElementOp& op : ElementOps()) {
    if (op.name[0] != '_') registry.Add(op.name, &MakeElement);
  }
}

}  // namespace formwork
