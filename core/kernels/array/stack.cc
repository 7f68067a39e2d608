#include "core/kernels/array/stack.h"

#include <algorithm>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/strided_copy.h"
#include "core/kernels/variant/optional.h"
#include "core/kernels/variant/ragged_variant.h"

namespace formwork {
namespace {

using TensorPtrs = absl::InlinedVector<const Tensor*, 8>;

TensorPtrs PointersTo(absl::Span<const Tensor> tensors) {
  TensorPtrs pointers;
  for (const Tensor& tensor : tensors) pointers.push_back(&tensor);
  return pointers;
}

// A few rows at a time, so that narrow pieces meet their neighbours' cache lines while these are
// still near.
constexpr int64_t kBlockElements = 4096;

// Elements of `tensor` for one entry along the dimensions before `axis`.
int64_t RowWidth(const Tensor& tensor, int axis) {
  return ProductOf(tensor.shape().dims().subspan(static_cast<size_t>(axis)));
}

// Writes the rows of all tensors side by side: row r of the result is row r of each in turn.
void JoinRows(DType dtype, absl::Span<const Tensor* const> tensors, int axis, int64_t rows,
              void* dst) {
  int64_t total = 0;
  for (const Tensor* tensor : tensors) total += RowWidth(*tensor, axis);
  if (rows == 0 || total == 0) return;
  const int64_t step = std::max<int64_t>(kBlockElements / total, 1);
  auto join = [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row += step) {
      const int64_t n = std::min(step, end - row);
      int64_t offset = row * total;
      for (size_t k = 0; k < tensors.size(); ++k) {
        if (WorkIsCutAt(k, kDearItems)) return;
        const Tensor* const tensor = tensors[k];
        const int64_t width = RowWidth(*tensor, axis);
        CopyStrided(dtype, ElementAt(dtype, tensor->raw(), row * width),
                    ElementAt(dtype, dst, offset), {{n, width, total}, {width, 1, 1}});
        offset += width;
      }
    }
  };
  ParallelFor(rows, std::max<int64_t>(MoveGrain<Word4>() / total, 1), join);
}

absl::Status CheckSameDType(absl::Span<const Tensor* const> tensors) {
  for (const Tensor* tensor : tensors) {
    if (tensor->dtype() != tensors[0]->dtype()) {
      return InvalidArgument("tensors to join differ in dtype: ", DTypeName(tensors[0]->dtype()),
                             " and ", DTypeName(tensor->dtype()));
    }
  }
  return absl::OkStatus();
}

// A list inside a list inside a list ...: nobody nests deeper on purpose.
constexpr int kMaxNesting = 200;

absl::StatusOr<Tensor> ZerosLikeNested(Allocator& allocator, const Tensor& value, int depth);

// Of what a variant holds; an item that is not set stays so.
absl::StatusOr<std::vector<Tensor>> ZerosLikeItems(Allocator& allocator,
                                                   const std::vector<Tensor>& items, int depth) {
  if (depth > kMaxNesting) return InvalidArgument("ZerosLike: variants are nested too deeply");
  std::vector<Tensor> zeros(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].has_value()) continue;
    FORMWORK_ASSIGN_OR_RETURN(zeros[i], ZerosLikeNested(allocator, items[i], depth));
  }
  return zeros;
}

absl::StatusOr<Tensor> ZerosLikeNested(Allocator& allocator, const Tensor& value, int depth) {
  if (value.dtype() != DType::kVariant) return ZeroTensor(allocator, value.dtype(), value.shape());
  if (!value.shape().is_scalar()) {
    return InvalidArgument("ZerosLike non-scalar Tensor with dtype=DT_VARIANT is not supported.");
  }
  const VariantObject* variant = value.scalar<Variant>().get();
  Variant zeros;
  if (const auto* list = dynamic_cast<const TensorList*>(variant)) {
    auto made = std::make_shared<TensorList>();
    made->element_dtype = list->element_dtype;
    made->element_shape = list->element_shape;
    FORMWORK_ASSIGN_OR_RETURN(made->items, ZerosLikeItems(allocator, list->items, depth + 1));
    zeros = std::move(made);
  } else if (const auto* optional = dynamic_cast<const Optional*>(variant)) {
    auto made = std::make_shared<Optional>();
    FORMWORK_ASSIGN_OR_RETURN(made->components,
                              ZerosLikeItems(allocator, optional->components, depth + 1));
    zeros = std::move(made);
  } else if (const auto* ragged = dynamic_cast<const RaggedVariant*>(variant)) {
    auto made = std::make_shared<RaggedVariant>();
    made->splits = ragged->splits;
    const DType dtype = ragged->values.dtype();
    if (!IsPlainData(dtype)) {
      return InvalidArgument("Trying to compute zeros_like for unsupported dtype ",
                             DTypeName(dtype));
    }
    FORMWORK_ASSIGN_OR_RETURN(made->values, ZeroTensor(allocator, dtype, ragged->values.shape()));
    zeros = std::move(made);
  } else {
    return InvalidArgument("No unary variant unary_op function found for op ZEROS_LIKE. Variant ",
                           "type_name: ", variant == nullptr ? "" : variant->type_name());
  }
  zeros->nesting = variant->nesting;
  FORMWORK_ASSIGN_OR_RETURN(Tensor result, Tensor::Allocate(allocator, DType::kVariant, Shape()));
  *result.mutable_data<Variant>() = std::move(zeros);
  return result;
}

}  // namespace

absl::StatusOr<Tensor> StackTensors(Allocator& allocator, absl::Span<const Tensor* const> tensors,
                                    int64_t axis) {
  if (tensors.empty()) return InvalidArgument("there are no tensors to stack");
  const Tensor& first = *tensors[0];
  FORMWORK_RETURN_IF_ERROR(CheckSameDType(tensors));
  FORMWORK_ASSIGN_OR_RETURN(const JoinGeometry geometry,
                            PreparePack({.axis = axis}, static_cast<int>(tensors.size()),
                                        [&](int i) { return tensors[i]->shape().dims(); }));
  const int at = geometry.axis;
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(geometry.output));
  if (tensors.size() == 1) return first.Reshaped(shape);
  FORMWORK_ASSIGN_OR_RETURN(Tensor result, Tensor::Allocate(allocator, first.dtype(), shape));
  if (shape.num_elements() == 0) return result;
  if (first.shape().is_scalar()) {
    // The usual small case: a vector of sizes.
    ByElement(first.dtype(), [&](auto tag) {
      using E = typename decltype(tag)::type;
      E* to = static_cast<E*>(result.mutable_raw());
      for (const Tensor* tensor : tensors) *to++ = *static_cast<const E*>(tensor->raw());
    });
    return result;
  }
  JoinRows(first.dtype(), tensors, at, ProductOf(first.shape().dims().first(at)),
           result.mutable_raw());
  return result;
}

absl::StatusOr<Tensor> ConcatTensors(Allocator& allocator, absl::Span<const Tensor> tensors,
                                     int64_t axis) {
  if (tensors.empty()) return InvalidArgument("ConcatOp : there are no tensors to concatenate");
  FORMWORK_ASSIGN_OR_RETURN(const JoinGeometry geometry,
                            PrepareConcat(
                                static_cast<int>(tensors.size()),
                                [&](int i) { return tensors[i].shape().dims(); }, axis));
  return ConcatTensors(allocator, PointersTo(tensors), geometry);
}

absl::StatusOr<Tensor> ConcatTensors(Allocator& allocator, absl::Span<const Tensor* const> tensors,
                                     const JoinGeometry& geometry) {
  const Tensor& first = *tensors[0];
  FORMWORK_RETURN_IF_ERROR(CheckSameDType(tensors));
  const Tensor* only = nullptr;  // The one input that has elements.
  bool several = false;
  for (const Tensor* tensor : tensors) {
    if (tensor->num_elements() == 0) continue;
    several = several || only != nullptr;
    only = tensor;
  }
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(geometry.output));
  if (only != nullptr && !several) return only->Reshaped(shape);
  FORMWORK_ASSIGN_OR_RETURN(Tensor result, Tensor::Allocate(allocator, first.dtype(), shape));
  if (shape.num_elements() == 0) return result;
  if (shape.rank() == 1) {
    int64_t offset = 0;
    for (const Tensor* tensor : tensors) {
      const int64_t n = tensor->num_elements();
      CopyStrided(first.dtype(), tensor->raw(),
                  ElementAt(first.dtype(), result.mutable_raw(), offset), {{n, 1, 1}});
      offset += n;
    }
    return result;
  }
  const int at = geometry.axis;
  JoinRows(first.dtype(), tensors, at, ProductOf(shape.dims().first(at)), result.mutable_raw());
  return result;
}

absl::StatusOr<Tensor> SliceAlong(Allocator& allocator, const Tensor& value, int axis,
                                  int64_t begin, int64_t size) {
  if (size == value.dim(axis)) return value;
  Dims dims(value.shape().dims().begin(), value.shape().dims().end());
  dims[axis] = size;
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(dims));
  FORMWORK_ASSIGN_OR_RETURN(Tensor result, Tensor::Allocate(allocator, value.dtype(), shape));
  if (shape.num_elements() == 0) return result;
  const int64_t inner = ProductOf(value.shape().dims().subspan(static_cast<size_t>(axis) + 1));
  const int64_t rows = ProductOf(value.shape().dims().first(axis));
  CopyStrided(value.dtype(), ElementAt(value.dtype(), value.raw(), begin * inner),
              result.mutable_raw(),
              {{rows, value.dim(axis) * inner, size * inner}, {size * inner, 1, 1}});
  return result;
}

absl::StatusOr<std::vector<Tensor>> UnstackTensor(Allocator& allocator, const Tensor& value,
                                                  int axis) {
  const int rank = value.rank();
  const int at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank) {
    return InvalidArgument("axis = ", axis, " not in [", -rank, ", ", rank, ")");
  }
  Dims dims(value.shape().dims().begin(), value.shape().dims().end());
  dims.erase(dims.begin() + at);
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(dims));
  std::vector<Tensor> parts;
  parts.reserve(static_cast<size_t>(value.dim(at)));
  for (int64_t i = 0; i < value.dim(at); ++i) {
    if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
    FORMWORK_ASSIGN_OR_RETURN(Tensor part, SliceAlong(allocator, value, at, i, 1));
    parts.push_back(std::move(part).Reshaped(shape));
  }
  return parts;
}

absl::StatusOr<Tensor> ZeroTensor(Allocator& allocator, DType dtype, const Shape& shape) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor zeros, Tensor::Allocate(allocator, dtype, shape));
  if (IsPlainData(dtype) && zeros.buffer()) ZeroElements(zeros);
  return zeros;
}

absl::StatusOr<Tensor> ZerosLike(Allocator& allocator, const Tensor& value) {
  return ZerosLikeNested(allocator, value, 0);
}

}  // namespace formwork
