// Ragged tensors as elements of dtype variant, and back: a batch of them is taken apart and put
// together along its outer dimensions.

#include <memory>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/ragged/ragged_cpu.h"
#include "core/kernels/ragged/row_splits.h"
#include "core/kernels/shape_tensor.h"
#include "core/kernels/strided_copy.h"
#include "core/kernels/variant/ragged_variant.h"
#include "core/kernels/variant/variant_nesting.h"
#include "core/ops/graph_dtype.h"
#include "core/ops/ragged.h"

namespace formwork {
namespace {

// A vector of row splits, `shift` less than `values`.
absl::StatusOr<Tensor> ShiftedSplits(Allocator& allocator, DType dtype,
                                     absl::Span<const int64_t> values, int64_t shift) {
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor splits,
      Tensor::Allocate(allocator, dtype, Shape{static_cast<int64_t>(values.size())}));
  for (size_t i = 0; i < values.size(); ++i) {
    if (WorkIsCutAt(static_cast<int64_t>(i))) return WorkStatus();
    if (dtype == DType::kInt64) {
      splits.mutable_data<int64_t>()[i] = values[i] - shift;
    } else {
      splits.mutable_data<int32_t>()[i] = static_cast<int32_t>(values[i] - shift);
    }
  }
  return splits;
}

// --- RaggedTensorToVariant ----------------------------------------------------------------------

absl::Status ToOneVariant(KernelContext& ctx, int count) {
  auto ragged = std::make_shared<RaggedVariant>();
  for (int i = 0; i < count; ++i) ragged->splits.push_back(ctx.TakeInput(i));
  FORMWORK_RETURN_IF_ERROR(CountNesting(*ragged, ctx.input(count)));
  ragged->values = ctx.TakeInput(count);
  ctx.SetOutput(0, Tensor::VariantScalar(std::move(ragged)));
  return absl::OkStatus();
}

absl::Status ToVariants(KernelContext& ctx, int count) {
  const Tensor& values = ctx.input(count);
  const DType dtype = ctx.input(0).dtype();
  FORMWORK_ASSIGN_OR_RETURN(const Dims dims, PrepareToVariant(true, ctx.input(0).shape().dims()));
  if (values.rank() == 0) return InvalidArgument("rt_dense_values must have rank 1 or more");
  FORMWORK_ASSIGN_OR_RETURN(const std::vector<IndexValues> nested,
                            NestedSplits(ctx, 0, count, values.dim(0)));
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor encoded, Tensor::Allocate(ctx.allocator(), DType::kVariant, Shape::Trusted(dims)));
  for (int64_t row = 0; row < dims[0]; ++row) {
    if (WorkIsCutAt(row, kDearItems)) return WorkStatus();
    auto ragged = std::make_shared<RaggedVariant>();
    FORMWORK_RETURN_IF_ERROR(CountNesting(*ragged, values));
    int64_t begin = nested[0][row];
    int64_t end = nested[0][row + 1];
    for (size_t i = 1; i < nested.size(); ++i) {
      const absl::Span<const int64_t> splits = nested[i].span().subspan(
          static_cast<size_t>(begin), static_cast<size_t>(end - begin) + 1);
      FORMWORK_ASSIGN_OR_RETURN(Tensor own,
                                ShiftedSplits(ctx.allocator(), dtype, splits, splits[0]));
      ragged->splits.push_back(std::move(own));
      begin = splits.front();
      end = splits.back();
    }
    FORMWORK_ASSIGN_OR_RETURN(ragged->values, CopyRows(ctx.allocator(), values, begin, end));
    encoded.mutable_data<Variant>()[row] = std::move(ragged);
  }
  ctx.SetOutput(0, std::move(encoded));
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeToVariant(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool batched, init.attrs().Get<bool>("batched_input"));
  const int count = static_cast<int>(init.input_dtypes().size()) - 1;
  if (batched && count == 0) {
    return InvalidArgument("ragged_rank must be > 0; ", "a batch needs row splits");
  }
  return KernelFn([batched, count](KernelContext& ctx) {
    return batched ? ToVariants(ctx, count) : ToOneVariant(ctx, count);
  });
}

// --- RaggedTensorFromVariant --------------------------------------------------------------------

absl::Status CheckComponent(const RaggedVariant& ragged, int64_t i, int ragged_rank, DType values,
                            DType splits) {
  if (static_cast<int>(ragged.splits.size()) != ragged_rank) {
    return InvalidArgument("Encoded input RaggedTensorVariant has ragged_rank=",
                           ragged.splits.size(), ".  Expected ragged_rank=", ragged_rank, ".");
  }
  if (ragged.values.dtype() != values) {
    return InvalidArgument("Expected values Tensor dtype: ", GraphDTypeName(values),
                           ", found: ", GraphDTypeName(ragged.values.dtype()));
  }
  if (ragged.values.rank() < 1) {
    return InvalidArgument("Ragged values must have rank >= 1; encoded scalar element at index ", i,
                           " has values Tensor: ", ragged.values.DebugString());
  }
  for (const Tensor& rows : ragged.splits) {
    if (rows.dtype() != splits) {
      return InvalidArgument("Expected row_splits Tensor dtype: ", GraphDTypeName(splits),
                             ", found: ", GraphDTypeName(rows.dtype()));
    }
    if (rows.rank() != 1 || rows.num_elements() == 0) {
      return InvalidArgument("Ragged splits must have rank 1; encoded scalar element at index ", i,
                             " has splits Tensor ", rows.DebugString());
    }
  }
  return absl::OkStatus();
}

using Components = std::vector<const RaggedVariant*>;

// Lives as long as `encoded`.
absl::StatusOr<Components> ComponentsOf(const Tensor& encoded, int ragged_rank, DType values,
                                        DType splits) {
  Components components;
  const absl::Span<const Variant> variants = encoded.span<Variant>();
  for (size_t i = 0; i < variants.size(); ++i) {
    const int64_t index = static_cast<int64_t>(i);
    if (WorkIsCutAt(index, kDearItems)) return WorkStatus();
    const auto* ragged = dynamic_cast<const RaggedVariant*>(variants[i].get());
    if (ragged == nullptr) {
      return InvalidArgument("Input Variant element at index ", i,
                             " doesn't hold a RaggedTensorVariant: ",
                             variants[i] == nullptr ? "INVALID" : variants[i]->type_name());
    }
    FORMWORK_RETURN_IF_ERROR(CheckComponent(*ragged, index, ragged_rank, values, splits));
    components.push_back(ragged);
  }
  return components;
}

// The values of all components, one behind the other.
absl::StatusOr<Tensor> JoinValues(Allocator& allocator, DType dtype, const Components& components) {
  // Where there is none, nothing says what shape its values would have.
  Dims dims = {0};
  if (!components.empty()) {
    const absl::Span<const int64_t> first = components[0]->values.shape().dims();
    dims.assign(first.begin(), first.end());
  }
  for (size_t i = 1; i < components.size(); ++i) {
    if (WorkIsCutAt(static_cast<int64_t>(i))) return WorkStatus();
    const Shape& shape = components[i]->values.shape();
    if (shape.rank() != static_cast<int>(dims.size())) {
      return InvalidArgument(
          "Rank of values must match for all components; values shape at index 0: ",
          components[0]->values.shape().ToString(), ", values shape at index ", i, ": ",
          shape.ToString());
    }
    // Rows of other widths would leave the output's elements undefined.
    if (shape.dim(0) > 0 &&
        !absl::c_equal(shape.dims().subspan(1), absl::MakeConstSpan(dims).subspan(1))) {
      return InvalidArgument(
          "Shape of values must match for all components; values shape at index 0: ",
          components[0]->values.shape().ToString(), ", values shape at index ", i, ": ",
          shape.ToString());
    }
    dims[0] += shape.dim(0);
  }
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  FORMWORK_ASSIGN_OR_RETURN(Tensor joined, Tensor::Allocate(allocator, dtype, shape));
  ByElement(dtype, [&](auto tag) {
    using E = typename decltype(tag)::type;
    E* to = static_cast<E*>(joined.mutable_raw());
    for (const RaggedVariant* component : components) {
      const int64_t n = component->values.num_elements();
      CopyElements(static_cast<const E*>(component->values.raw()), n, to);
      to += n;
    }
  });
  return joined;
}

absl::Status Join(KernelContext& ctx, const Tensor& encoded, int ragged_rank, DType splits_dtype,
                  DType values_dtype) {
  FORMWORK_ASSIGN_OR_RETURN(const Components components,
                            ComponentsOf(encoded, ragged_rank, values_dtype, splits_dtype));
  if (encoded.rank() == 0) {
    for (int i = 0; i < ragged_rank; ++i) ctx.SetOutput(i, components[0]->splits[i]);
    ctx.SetOutput(ragged_rank, components[0]->values);
    return absl::OkStatus();
  }
  int output = 0;
  // The dimensions of variants are uniform but for the last, whose rows are the components.
  int64_t rows = 1;
  for (int d = 0; d + 1 < encoded.rank(); ++d) {
    rows *= encoded.dim(d);
    std::vector<int64_t> splits;
    for (int64_t i = 0; i <= rows; ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      splits.push_back(i * encoded.dim(d + 1));
    }
    FORMWORK_RETURN_IF_ERROR(OutputIntegers(ctx, output++, splits_dtype, splits));
  }
  std::vector<int64_t> lengths = {0};
  for (const RaggedVariant* component : components) {
    lengths.push_back(lengths.back() + (ragged_rank > 0 ? component->splits[0].num_elements() - 1
                                                        : component->values.dim(0)));
  }
  FORMWORK_RETURN_IF_ERROR(OutputIntegers(ctx, output++, splits_dtype, lengths));
  for (int depth = 0; depth < ragged_rank; ++depth) {
    std::vector<int64_t> joined = {0};
    for (const RaggedVariant* component : components) {
      const IndexValues splits(component->splits[static_cast<size_t>(depth)]);
      const int64_t shift = joined.back();
      for (int64_t i = 1; i < splits.size(); ++i) {
        if (WorkIsCutAt(i)) return WorkStatus();
        joined.push_back(splits[i] + shift);
      }
    }
    FORMWORK_RETURN_IF_ERROR(OutputIntegers(ctx, output++, splits_dtype, joined));
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor values, JoinValues(ctx.allocator(), values_dtype, components));
  ctx.SetOutput(output, std::move(values));
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeFromVariant(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const FromVariantAttrs attrs,
                            FromVariantAttrs::FromAttrs(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const DType splits, init.attrs().Get<DType>("Tsplits"));
  const DType values = init.output_dtypes().back();
  return KernelFn([attrs, splits, values](KernelContext& ctx) -> absl::Status {
    // A copy, which keeps the variants: outputs may take the input's place.
    const Tensor encoded = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const int rank, PrepareFromVariant(attrs, encoded.rank()));
    return Join(ctx, encoded, rank, splits, values);
  });
}

// --- RaggedTensorToVariantGradient --------------------------------------------------------------

absl::StatusOr<KernelFn> MakeToVariantGradient(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    const Tensor encoded = ctx.input(0);
    const IndexValues rows(ctx.input(1));
    FORMWORK_ASSIGN_OR_RETURN(const Dims dims,
                              IntegersOf(ctx.input(2), "RaggedTensorToVariantGradient: shape"));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
    // A component that nothing depends on has no gradient: zeros stand for it.
    Components components;
    const absl::Span<const Variant> variants = encoded.span<Variant>();
    for (const Variant& variant : variants) {
      components.push_back(dynamic_cast<const RaggedVariant*>(variant.get()));
    }
    if (encoded.rank() == 0) {
      if (components[0] == nullptr || components[0]->values.shape() != shape ||
          components[0]->values.dtype() != dtype) {
        return InvalidArgument("encoded_ragged_grad is not of shape ", shape.ToString());
      }
      ctx.SetOutput(0, components[0]->values);
      return absl::OkStatus();
    }
    const int64_t width = shape.rank() == 0 ? 1 : ProductOf(shape.dims().subspan(1));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, dtype, shape));
    int64_t done = 0;
    return ByElement(dtype, [&](auto tag) -> absl::Status {
      using E = typename decltype(tag)::type;
      E* to = static_cast<E*>(out->mutable_raw());
      for (size_t i = 0; i < components.size(); ++i) {
        if (WorkIsCutAt(static_cast<int64_t>(i), kDearItems)) return WorkStatus();
        const int64_t row = static_cast<int64_t>(i);
        int64_t n = components[i] == nullptr ? -1 : components[i]->values.num_elements();
        if (n < 0 && row + 1 < rows.size()) n = (rows[row + 1] - rows[row]) * width;
        if (n < 0 || n > shape.num_elements() - done ||
            (components[i] != nullptr && components[i]->values.dtype() != dtype)) {
          return InvalidArgument("encoded_ragged_grad does not fit shape ", shape.ToString());
        }
        if (components[i] != nullptr) {
          CopyElements(static_cast<const E*>(components[i]->values.raw()), n, to + done);
        } else if constexpr (std::is_trivially_copyable_v<E>) {
          std::memset(static_cast<void*>(to + done), 0, static_cast<size_t>(n) * sizeof(E));
        }
        done += n;
      }
      if (done != shape.num_elements()) {
        return InvalidArgument("encoded_ragged_grad does not fit shape ", shape.ToString());
      }
      return absl::OkStatus();
    });
  });
}

}  // namespace

void AddRaggedVariantCpuKernels(KernelRegistry& registry) {
  registry.Add("RaggedTensorToVariant", MakeToVariant);
  registry.Add("RaggedTensorFromVariant", MakeFromVariant);
  registry.Add("RaggedTensorToVariantGradient", MakeToVariantGradient);
}

}  // namespace formwork
