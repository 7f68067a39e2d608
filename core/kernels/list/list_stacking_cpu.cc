// TensorList: from tensors and back (stack, concat, gather, scatter, split).

#include <algorithm>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/list/list_cpu.h"

namespace formwork {
namespace {

// Rows of `tensor` as items of a list of shape `element`.
absl::StatusOr<std::vector<Tensor>> RowsOf(KernelContext& ctx, const Tensor& tensor,
                                           const PartialShape& element) {
  FORMWORK_RETURN_IF_ERROR(CheckListRows(tensor.shape().dims()));
  const Shape row = Shape::Trusted(tensor.shape().dims().subspan(1));
  if (!element.Accepts(row)) {
    return InvalidArgument("Specified a list with shape ", element.ToString(),
                           " from a tensor with shape ", row.ToString());
  }
  FORMWORK_RETURN_IF_ERROR(CheckListSize(ctx.allocator(), tensor.dim(0)));
  return UnstackTensor(ctx.allocator(), tensor, 0);
}

absl::Status CountNestings(TensorList& list) {
  for (const Tensor& item : list.items) FORMWORK_RETURN_IF_ERROR(CountNesting(list, item));
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeFromTensor(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    auto list = std::make_shared<TensorList>();
    list->element_dtype = dtype;
    FORMWORK_RETURN_IF_ERROR(CheckListRows(ctx.input(0).shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(list->element_shape, ListShapeFrom(ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(list->items, RowsOf(ctx, ctx.input(0), list->element_shape));
    FORMWORK_RETURN_IF_ERROR(CountNestings(*list));
    ctx.SetOutput(0, Tensor::VariantScalar(std::move(list)));
    return absl::OkStatus();
  });
}

// Stacks the items that `items` points to; null stands for zeros of shape `shape`.
absl::StatusOr<Tensor> StackItems(KernelContext& ctx, DType dtype, absl::Span<const Tensor*> items,
                                  const Shape& shape) {
  Dims dims = {static_cast<int64_t>(items.size())};
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  FORMWORK_ASSIGN_OR_RETURN(const Shape stacked, Shape::Make(dims));
  if (stacked.num_elements() == 0) return ZeroTensor(ctx.allocator(), dtype, stacked);
  Tensor zeros;
  for (const Tensor*& item : items) {
    if (item != nullptr) continue;
    if (!zeros.has_value()) {
      FORMWORK_ASSIGN_OR_RETURN(zeros, ZeroTensor(ctx.allocator(), dtype, shape));
    }
    item = &zeros;
  }
  return StackTensors(ctx.allocator(), absl::Span<const Tensor* const>(items), 0);
}

absl::StatusOr<KernelFn> MakeStack(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  FORMWORK_ASSIGN_OR_RETURN(const ListStackAttrs attrs, ListStackAttrs::FromAttrs(init.attrs()));
  return KernelFn([dtype, expected = attrs.num_elements](KernelContext& ctx) -> absl::Status {
    const Tensor handle = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const TensorList* list, TypedListOf(handle, dtype));
    const int64_t size = static_cast<int64_t>(list->items.size());
    if (expected != -1 && size != expected) {
      return InvalidArgument("Operation expected a list with ", expected,
                             " elements but got a list with ", size, " elements.");
    }
    FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, ListShapeFrom(ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(shape, MergeListShapes(shape, list->element_shape));
    if (size == 0 && !shape.fully_known()) {
      return InvalidArgument(
          "Tried to stack elements of an empty list with non-fully-defined element_shape: ",
          shape.ToString());
    }
    FORMWORK_RETURN_IF_ERROR(MergeItemShapes(*list, shape));
    std::optional<Shape> known = shape.ToShape();
    if (!known) {
      return InvalidArgument(
          "Tried to stack list which only contains uninitialized tensors and has a "
          "non-fully-defined element_shape: ",
          shape.ToString());
    }
    absl::InlinedVector<const Tensor*, 16> items;
    for (const Tensor& item : list->items) items.push_back(item.has_value() ? &item : nullptr);
    FORMWORK_ASSIGN_OR_RETURN(Tensor output, StackItems(ctx, dtype, absl::MakeSpan(items), *known));
    ctx.SetOutput(0, std::move(output));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeGather(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    const Tensor handle = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const TensorList* list, TypedListOf(handle, dtype));
    FORMWORK_ASSIGN_OR_RETURN(const Dims indices,
                              IntegersOf(ctx.input(1), "TensorListGather: indices"));
    FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, ListShapeFrom(ctx.input(2)));
    FORMWORK_ASSIGN_OR_RETURN(shape, MergeListShapes(shape, list->element_shape));
    absl::InlinedVector<const Tensor*, 16> items;
    for (int64_t index : indices) {
      if (WorkIsCutAt(static_cast<int64_t>(items.size()))) return WorkStatus();
      if (index < 0 || index >= static_cast<int64_t>(list->items.size())) {
        return InvalidArgument("Trying to gather element ", index, " in a list with ",
                               list->items.size(), " elements.");
      }
      const Tensor& item = list->items[index];
      items.push_back(item.has_value() ? &item : nullptr);
      if (!item.has_value()) continue;
      FORMWORK_ASSIGN_OR_RETURN(shape, MergeListShapes(shape, item.shape()));
    }
    std::optional<Shape> known = shape.ToShape();
    if (!known) {
      return InvalidArgument(indices.empty()
                                 ? "Tried to gather 0-elements from a list with "
                                   "non-fully-defined shape: "
                                 : "Tried to gather uninitialized tensors from a list with "
                                   "non-fully-defined element_shape: ",
                             shape.ToString());
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor output, StackItems(ctx, dtype, absl::MakeSpan(items), *known));
    ctx.SetOutput(0, std::move(output));
    return absl::OkStatus();
  });
}

// `shape` without its first dimension. Errors: kInvalidArgument for a scalar's.
absl::StatusOr<PartialShape> WithoutFirst(const PartialShape& shape) {
  if (!shape.known_rank()) return PartialShape::Unknown();
  if (shape.rank() < 1) {
    return InvalidArgument("Concat requires elements to be at least vectors, ",
                           "found scalars instead.");
  }
  return PartialShape::Trusted(shape.dims().subspan(1));
}

// TensorListConcat (element_shape an attr) and TensorListConcatV2 (inputs).
absl::StatusOr<KernelFn> MakeConcat(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  const bool has_inputs = init.input_dtypes().size() == 3;
  PartialShape attr_shape;
  if (!has_inputs) {
    FORMWORK_ASSIGN_OR_RETURN(attr_shape, init.attrs().Get<PartialShape>("element_shape"));
  }
  return KernelFn([dtype, has_inputs, attr_shape](KernelContext& ctx) -> absl::Status {
    const Tensor handle = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(const TensorList* list, TypedListOf(handle, dtype));
    PartialShape shape = attr_shape;
    Dims leading;
    if (has_inputs) {
      FORMWORK_ASSIGN_OR_RETURN(shape, ListShapeFrom(ctx.input(1)));
      FORMWORK_ASSIGN_OR_RETURN(leading,
                                IntegersOf(ctx.input(2), "TensorListConcat: leading_dims"));
    }
    FORMWORK_ASSIGN_OR_RETURN(shape, MergeListShapes(shape, list->element_shape));
    FORMWORK_ASSIGN_OR_RETURN(PartialShape rest, WithoutFirst(shape));
    const int64_t first = shape.rank() > 0 ? shape.dim(0) : -1;
    if (list->items.empty() && !rest.fully_known()) {
      return InvalidArgument(
          "All except the first dimension must be fully defined when concating an empty tensor "
          "list. element_shape: ",
          shape.ToString());
    }
    for (size_t i = 0; i < list->items.size(); ++i) {
      const Tensor& item = list->items[i];
      if (!item.has_value()) continue;
      if (item.rank() == 0) {
        return InvalidArgument("Concat saw a scalar shape at index ", i,
                               " but requires at least vectors.");
      }
      const Shape row = Shape::Trusted(item.shape().dims().subspan(1));
      FORMWORK_ASSIGN_OR_RETURN(rest, MergeListShapes(rest, row));
    }
    std::optional<Shape> row = rest.ToShape();
    if (!row) {
      return InvalidArgument(
          "Trying to concat list with only uninitialized tensors but "
          "element_shape_except_first_dim is not fully defined: ",
          rest.ToString());
    }
    const int64_t size = static_cast<int64_t>(list->items.size());
    FORMWORK_ASSIGN_OR_RETURN(Tensor lengths,
                              Tensor::Allocate(ctx.allocator(), DType::kInt64, Shape({size})));
    std::vector<Tensor> pieces;
    pieces.reserve(list->items.size());
    for (int64_t i = 0; i < size; ++i) {
      if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
      const Tensor& item = list->items[i];
      int64_t length;
      if (item.has_value()) {
        length = item.dim(0);
        if (first != -1 && length != first) {
          return InvalidArgument("First entry of element_shape input does not match the first ",
                                 "dim of list element at index: ", i, " Expected: ", first,
                                 " Actual: ", length);
        }
        pieces.push_back(item);
      } else {
        if (first == -1 && i >= static_cast<int64_t>(leading.size())) {
          return InvalidArgument("List contains uninitialized tensor at index ", i,
                                 " but leading_dims has only ", leading.size(), " elements.");
        }
        length = first == -1 ? leading[i] : first;
        Dims dims = {length};
        dims.insert(dims.end(), row->dims().begin(), row->dims().end());
        FORMWORK_ASSIGN_OR_RETURN(const Shape piece, Shape::Make(dims));
        FORMWORK_ASSIGN_OR_RETURN(Tensor zeros, ZeroTensor(ctx.allocator(), dtype, piece));
        pieces.push_back(std::move(zeros));
      }
      lengths.mutable_data<int64_t>()[i] = length;
    }
    Tensor output;
    if (pieces.empty()) {
      Dims dims = {0};
      dims.insert(dims.end(), row->dims().begin(), row->dims().end());
      FORMWORK_ASSIGN_OR_RETURN(const Shape none, Shape::Make(dims));
      FORMWORK_ASSIGN_OR_RETURN(output, ZeroTensor(ctx.allocator(), dtype, none));
    } else {
      FORMWORK_ASSIGN_OR_RETURN(output,
                                ConcatTensors(ctx.allocator(), absl::MakeConstSpan(pieces), 0));
    }
    ctx.SetOutput(0, std::move(output));
    ctx.SetOutput(1, std::move(lengths));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeSplit(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    const Tensor& tensor = ctx.input(0);
    FORMWORK_RETURN_IF_ERROR(CheckListRows(tensor.shape().dims()));
    FORMWORK_ASSIGN_OR_RETURN(PartialShape element, ListShapeFrom(ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(const Dims lengths,
                              PrepareListSplit(tensor.shape().dims(), element, ctx.input(2)));
    FORMWORK_RETURN_IF_ERROR(CheckListSize(ctx.allocator(), static_cast<int64_t>(lengths.size())));
    auto list = std::make_shared<TensorList>();
    list->element_dtype = dtype;
    list->element_shape = element;
    int64_t begin = 0;
    for (int64_t length : lengths) {
      if (WorkIsCutAt(list->items.size(), kDearItems)) return WorkStatus();
      FORMWORK_ASSIGN_OR_RETURN(Tensor piece,
                                SliceAlong(ctx.allocator(), tensor, 0, begin, length));
      list->items.push_back(std::move(piece));
      begin += length;
    }
    FORMWORK_RETURN_IF_ERROR(CountNestings(*list));
    ctx.SetOutput(0, Tensor::VariantScalar(std::move(list)));
    return absl::OkStatus();
  });
}

// Puts rows of `tensor` into the list, which grows as needed.
absl::Status ScatterInto(KernelContext& ctx, TensorList& list, const Tensor& tensor,
                         const ListScatterGeometry& geometry) {
  FORMWORK_ASSIGN_OR_RETURN(std::vector<Tensor> rows, RowsOf(ctx, tensor, list.element_shape));
  const int64_t size = std::max(static_cast<int64_t>(list.items.size()), geometry.least);
  FORMWORK_RETURN_IF_ERROR(CheckListSize(ctx.allocator(), size));
  list.items.resize(size);
  for (size_t i = 0; i < rows.size(); ++i) {
    FORMWORK_RETURN_IF_ERROR(CountNesting(list, rows[i]));
    list.items[geometry.indices[i]] = std::move(rows[i]);
  }
  return absl::OkStatus();
}

// TensorListScatter and TensorListScatterV2, which has num_elements.
absl::StatusOr<KernelFn> MakeScatter(KernelInit& init) {
  const DType dtype = init.input_dtypes()[0];
  const bool has_size = init.input_dtypes().size() == 4;
  return KernelFn([dtype, has_size](KernelContext& ctx) -> absl::Status {
    const Tensor& tensor = ctx.input(0);
    FORMWORK_ASSIGN_OR_RETURN(
        const ListScatterGeometry geometry,
        has_size ? PrepareListScatter(ctx.input(1), tensor.shape().dims(), ctx.input(3))
                 : PrepareListScatter(ctx.input(1), tensor.shape().dims()));
    auto list = std::make_shared<TensorList>();
    list->element_dtype = dtype;
    FORMWORK_ASSIGN_OR_RETURN(list->element_shape, ListShapeFrom(ctx.input(2)));
    FORMWORK_RETURN_IF_ERROR(ScatterInto(ctx, *list, tensor, geometry));
    ctx.SetOutput(0, Tensor::VariantScalar(std::move(list)));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeScatterIntoExisting(KernelInit& init) {
  const DType dtype = init.input_dtypes()[1];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(TypedListOf(ctx.input(0), dtype).status());
    const Tensor tensor = ctx.input(1);
    FORMWORK_ASSIGN_OR_RETURN(const ListScatterGeometry geometry,
                              PrepareListScatterIntoExisting(ctx.input(2), tensor.shape().dims()));
    Tensor handle = ctx.TakeInput(0);
    FORMWORK_RETURN_IF_ERROR(ScatterInto(ctx, OwnList(handle), tensor, geometry));
    ctx.SetOutput(0, std::move(handle));
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterListStackingCpuKernels(KernelRegistry& registry) {
  registry.Add("TensorListFromTensor", MakeFromTensor);
  registry.Add("TensorListStack", MakeStack);
  registry.Add("TensorListGather", MakeGather);
  registry.Add("TensorListConcat", MakeConcat);
  registry.Add("TensorListConcatV2", MakeConcat);
  registry.Add("TensorListSplit", MakeSplit);
  registry.Add("TensorListScatter", MakeScatter);
  registry.Add("TensorListScatterV2", MakeScatter);
  registry.Add("TensorListScatterIntoExistingList", MakeScatterIntoExisting);
}

}  // namespace formwork
