// TensorList: reading and changing one. A list that nobody else holds is changed in place, so that
// a loop that writes one entry an iteration costs O(1) an iteration.

#include "core/kernels/list/list_cpu.h"

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/ops/graph_dtype.h"

namespace formwork {

absl::StatusOr<const TensorList*> ListOf(const Tensor& handle) {
  if (handle.rank() != 0) {
    return InvalidArgument("Input list must be a scalar saw: ", handle.shape().ToString());
  }
  return ListAt(handle, 0);
}

absl::StatusOr<const TensorList*> ListAt(const Tensor& handles, int64_t i) {
  const Variant& variant = handles.data<Variant>()[i];
  const auto* list = dynamic_cast<const TensorList*>(variant.get());
  if (list == nullptr) {
    return InvalidArgument("Input handle is not a list. Saw: '",
                           variant == nullptr ? "INVALID" : variant->type_name(), "'");
  }
  return list;
}

absl::StatusOr<const TensorList*> TypedListOf(const Tensor& handle, DType dtype) {
  FORMWORK_ASSIGN_OR_RETURN(const TensorList* list, ListOf(handle));
  if (list->element_dtype != dtype) {
    return InvalidArgument("Invalid data types; op elements ", GraphDTypeName(dtype),
                           " but list elements ", GraphDTypeName(list->element_dtype));
  }
  return list;
}

TensorList& OwnList(Tensor& handle) {
  Variant& variant = const_cast<Variant&>(handle.data<Variant>()[0]);
  if (handle.unique() && variant.use_count() == 1) {
    return static_cast<TensorList&>(*variant);
  }
  auto copy = std::make_shared<TensorList>(static_cast<const TensorList&>(*variant));
  TensorList& list = *copy;
  handle = Tensor::VariantScalar(std::move(copy));
  return list;
}

absl::Status CheckListSize(Allocator& allocator, int64_t size) {
  // What std::vector takes is not the allocator's: asking it for as much shows whether it fits.
  if (size > kMaxListItems) {
    return ResourceExhausted("out of memory: TensorList is too long: size=", size,
                             " limit=", kMaxListItems);
  }
  FORMWORK_ASSIGN_OR_RETURN(
      BufferBlock * block,
      allocator.Allocate(std::max<size_t>(1, static_cast<size_t>(size) * sizeof(Tensor)), nullptr));
  Buffer(block).Reset();
  return absl::OkStatus();
}

absl::Status MergeItemShapes(const TensorList& list, PartialShape& shape) {
  if (list.element_shape.fully_known()) return absl::OkStatus();
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (WorkIsCutAt(static_cast<int64_t>(i))) return WorkStatus();
    const Tensor& item = list.items[i];
    if (!item.has_value()) continue;
    FORMWORK_ASSIGN_OR_RETURN(shape, MergeListShapes(shape, item.shape()));
  }
  return absl::OkStatus();
}

namespace {

absl::StatusOr<KernelFn> MakeEmpty(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DType dtype, init.attrs().Get<DType>("element_dtype"));
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    auto list = std::make_shared<TensorList>();
    FORMWORK_ASSIGN_OR_RETURN(list->max_num_elements, ListLimit(ctx.input(1)));
    FORMWORK_ASSIGN_OR_RETURN(list->element_shape, ListShapeFrom(ctx.input(0)));
    list->element_dtype = dtype;
    ctx.SetOutput(0, Tensor::VariantScalar(std::move(list)));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeReserve(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DType dtype, init.attrs().Get<DType>("element_dtype"));
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const int32_t size, ReservedListSize(ctx.input(1)));
    auto list = std::make_shared<TensorList>();
    FORMWORK_ASSIGN_OR_RETURN(list->element_shape, ListShapeFrom(ctx.input(0)));
    FORMWORK_RETURN_IF_ERROR(CheckListSize(ctx.allocator(), size));
    list->element_dtype = dtype;
    list->items.resize(size);
    ctx.SetOutput(0, Tensor::VariantScalar(std::move(list)));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeLength(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const TensorList* list, ListOf(ctx.input(0)));
    ctx.SetOutput(0, Tensor::Scalar<int32_t>(static_cast<int32_t>(list->items.size())));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeElementShape(KernelInit& init) {
  const bool wide = init.output_dtypes()[0] == DType::kInt64;
  return KernelFn([wide](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const TensorList* list, ListOf(ctx.input(0)));
    // A copy: the output may take the place of the list.
    const PartialShape element = list->element_shape;
    const DType dtype = wide ? DType::kInt64 : DType::kInt32;
    const Shape shape = element.known_rank() ? Shape({element.rank()}) : Shape();
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, dtype, shape));
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      const int64_t dim = element.known_rank() ? element.dim(static_cast<int>(i)) : -1;
      if (wide) {
        output->mutable_data<int64_t>()[i] = dim;
      } else {
        output->mutable_data<int32_t>()[i] = static_cast<int32_t>(dim);
      }
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakePushBack(KernelInit& init) {
  const DType dtype = init.input_dtypes()[1];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const TensorList* list, TypedListOf(ctx.input(0), dtype));
    const Shape& shape = ctx.input(1).shape();
    if (!list->element_shape.Accepts(shape)) {
      return InvalidArgument(
          "Tried to append a tensor with incompatible shape to a list. Op element shape: ",
          shape.ToString(), " list shape: ", list->element_shape.ToString());
    }
    const int64_t size = static_cast<int64_t>(list->items.size());
    if (list->max_num_elements != -1 && size >= list->max_num_elements) {
      return InvalidArgument("Tried to push item into a full list list size: ", size,
                             " max_num_elements: ", list->max_num_elements);
    }
    if (size >= kMaxListItems) return CheckListSize(ctx.allocator(), size + 1);
    Tensor handle = ctx.TakeInput(0);
    TensorList& own = OwnList(handle);
    Tensor item = ctx.TakeInput(1);
    FORMWORK_RETURN_IF_ERROR(CountNesting(own, item));
    own.items.push_back(std::move(item));
    ctx.SetOutput(0, std::move(handle));
    return absl::OkStatus();
  });
}

// TensorFlow gives what is there, but plans rely on the shape that is asked for.
absl::Status CheckReadItem(const PartialShape& shape, const Tensor& item) {
  if (shape.Accepts(item.shape())) return absl::OkStatus();
  return InvalidArgument("Tried to read an item of another shape: item=", item.shape().ToString(),
                         " element_shape=", shape.ToString());
}

absl::StatusOr<KernelFn> MakePopBack(KernelInit& init) {
  const DType dtype = init.output_dtypes()[1];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const TensorList* list, TypedListOf(ctx.input(0), dtype));
    if (list->items.empty()) return InvalidArgument("Trying to pop from an empty list.");
    Tensor zeros;
    FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, ListShapeFrom(ctx.input(1)));
    if (list->items.back().has_value()) {
      FORMWORK_RETURN_IF_ERROR(CheckReadItem(shape, list->items.back()));
    } else {
      FORMWORK_ASSIGN_OR_RETURN(shape, MergeListShapes(shape, list->element_shape));
      FORMWORK_RETURN_IF_ERROR(MergeItemShapes(*list, shape));
      std::optional<Shape> known = shape.ToShape();
      if (!known) {
        return InvalidArgument(
            "Trying to read an uninitialized tensor but element_shape is not fully defined.",
            shape.ToString());
      }
      FORMWORK_ASSIGN_OR_RETURN(zeros, ZeroTensor(ctx.allocator(), dtype, *known));
    }
    Tensor handle = ctx.TakeInput(0);
    TensorList& own = OwnList(handle);
    ctx.SetOutput(1, zeros.has_value() ? std::move(zeros) : std::move(own.items.back()));
    own.items.pop_back();
    ctx.SetOutput(0, std::move(handle));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeResize(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(ListOf(ctx.input(0)).status());
    FORMWORK_ASSIGN_OR_RETURN(const int32_t size, ResizedListSize(ctx.input(1)));
    FORMWORK_RETURN_IF_ERROR(CheckListSize(ctx.allocator(), size));
    Tensor handle = ctx.TakeInput(0);
    OwnList(handle).items.resize(size);
    ctx.SetOutput(0, std::move(handle));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeGetItem(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const TensorList* list, TypedListOf(ctx.input(0), dtype));
    FORMWORK_ASSIGN_OR_RETURN(const int32_t index, ListItemToGet(ctx.input(1), list->items.size()));
    FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, ListShapeFrom(ctx.input(2)));
    const Tensor& item = list->items[index];
    if (item.has_value()) {
      FORMWORK_RETURN_IF_ERROR(CheckReadItem(shape, item));
      ctx.SetOutput(0, item);
      return absl::OkStatus();
    }
    FORMWORK_ASSIGN_OR_RETURN(shape, MergeListShapes(shape, list->element_shape));
    if (!shape.fully_known()) FORMWORK_RETURN_IF_ERROR(MergeItemShapes(*list, shape));
    std::optional<Shape> known = shape.ToShape();
    if (!known) {
      return InvalidArgument(
          "Trying to read an uninitialized tensor but element_shape is not fully defined: ",
          shape.ToString(), " and no list element is set.");
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor zeros, ZeroTensor(ctx.allocator(), dtype, *known));
    ctx.SetOutput(0, std::move(zeros));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeSetItem(KernelInit& init) {
  const DType dtype = init.input_dtypes()[2];
  FORMWORK_ASSIGN_OR_RETURN(const bool resize,
                            init.attrs().Get<bool>("resize_if_index_out_of_bounds"));
  return KernelFn([dtype, resize](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const TensorList* list, TypedListOf(ctx.input(0), dtype));
    FORMWORK_ASSIGN_OR_RETURN(const int32_t index,
                              ListItemToSet(ctx.input(1), list->items.size(), resize));
    const bool outside = static_cast<size_t>(index) >= list->items.size();
    const Shape& shape = ctx.input(2).shape();
    if (!list->element_shape.Accepts(shape)) {
      return InvalidArgument(
          "Tried to set a tensor with incompatible shape at a list index. Item element shape: ",
          shape.ToString(), " list shape: ", list->element_shape.ToString());
    }
    if (outside) FORMWORK_RETURN_IF_ERROR(CheckListSize(ctx.allocator(), int64_t{index} + 1));
    Tensor handle = ctx.TakeInput(0);
    TensorList& own = OwnList(handle);
    Tensor item = ctx.TakeInput(2);
    FORMWORK_RETURN_IF_ERROR(CountNesting(own, item));
    if (outside) own.items.resize(static_cast<size_t>(index) + 1);
    own.items[index] = std::move(item);
    ctx.SetOutput(0, std::move(handle));
    return absl::OkStatus();
  });
}

// The items of one list after those of another, list by list.
absl::StatusOr<KernelFn> MakeConcatLists(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const DType dtype, init.attrs().Get<DType>("element_dtype"));
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    const Tensor a = ctx.input(0);
    const Tensor b = ctx.input(1);
    if (a.shape() != b.shape()) {
      return InvalidArgument("Incompatible input TensorList tensor shapes: ", a.shape().ToString(),
                             " vs. ", b.shape().ToString());
    }
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output, ctx.AllocateOutput(0, DType::kVariant, a.shape()));
    int64_t total = 0;
    for (int64_t i = 0; i < a.num_elements(); ++i) {
      if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
      FORMWORK_ASSIGN_OR_RETURN(const TensorList* first, ListAt(a, i));
      FORMWORK_ASSIGN_OR_RETURN(const TensorList* second, ListAt(b, i));
      for (const auto& [list, name] : {std::pair(first, "input_a"), std::pair(second, "input_b")}) {
        if (list->element_dtype == dtype) continue;
        return InvalidArgument(name, "[", i, "].dtype != element_dtype.  Saw: ",
                               GraphDTypeName(list->element_dtype), " vs. ", GraphDTypeName(dtype));
      }
      if (first->element_shape != second->element_shape) {
        return InvalidArgument(
            "input_a and input_b TensorList element shapes are not identical at index ", i,
            ".  Saw ", first->element_shape.ToString(), " vs. ", second->element_shape.ToString());
      }
      total += static_cast<int64_t>(first->items.size() + second->items.size());
      FORMWORK_RETURN_IF_ERROR(CheckListSize(ctx.allocator(), total));
      auto joined = std::make_shared<TensorList>(*first);
      joined->items.insert(joined->items.end(), second->items.begin(), second->items.end());
      joined->nesting = std::max(first->nesting, second->nesting);
      output->mutable_data<Variant>()[i] = std::move(joined);
    }
    return absl::OkStatus();
  });
}

// tensor[i] is pushed to the back of list i.
absl::StatusOr<KernelFn> MakePushBackBatch(KernelInit& init) {
  const DType dtype = init.input_dtypes()[1];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    const Tensor handles = ctx.input(0);
    const Tensor value = ctx.input(1);
    if (value.rank() == 0) {
      return InvalidArgument("Expected tensor to be at least a vector, but saw shape: ",
                             value.shape().ToString());
    }
    if (handles.rank() != 1) {
      return InvalidArgument("Expected input_handles to be a vector, but saw shape: ",
                             handles.shape().ToString());
    }
    if (value.dim(0) != handles.dim(0)) {
      return InvalidArgument("Expected tensor.shape[0] == input_handles.size, but saw ",
                             value.dim(0), " vs. ", handles.dim(0));
    }
    FORMWORK_ASSIGN_OR_RETURN(const std::vector<Tensor> items,
                              UnstackTensor(ctx.allocator(), value, 0));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * output,
                              ctx.AllocateOutput(0, DType::kVariant, handles.shape()));
    for (int64_t i = 0; i < handles.num_elements(); ++i) {
      if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
      FORMWORK_ASSIGN_OR_RETURN(const TensorList* list, ListAt(handles, i));
      if (list->element_dtype != dtype) {
        return InvalidArgument("Invalid data type at index ", i, "; op elements ",
                               GraphDTypeName(dtype), " but list elements ",
                               GraphDTypeName(list->element_dtype));
      }
      if (!list->element_shape.Accepts(items[i].shape())) {
        return InvalidArgument("Tried to append a tensor with incompatible shape to a list at ",
                               "index ", i, ". Op element shape: ", items[i].shape().ToString(),
                               " list shape: ", list->element_shape.ToString());
      }
      auto longer = std::make_shared<TensorList>(*list);
      FORMWORK_RETURN_IF_ERROR(CountNesting(*longer, items[i]));
      longer->items.push_back(items[i]);
      output->mutable_data<Variant>()[i] = std::move(longer);
    }
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterListCpuKernels(KernelRegistry& registry) {
  registry.Add("EmptyTensorList", MakeEmpty);
  registry.Add("TensorListReserve", MakeReserve);
  registry.Add("TensorListLength", MakeLength);
  registry.Add("TensorListElementShape", MakeElementShape);
  registry.Add("TensorListPushBack", MakePushBack);
  registry.Add("TensorListPushBackBatch", MakePushBackBatch);
  registry.Add("TensorListPopBack", MakePopBack);
  registry.Add("TensorListResize", MakeResize);
  registry.Add("TensorListGetItem", MakeGetItem);
  registry.Add("TensorListSetItem", MakeSetItem);
  registry.Add("TensorListConcatLists", MakeConcatLists);
  RegisterListStackingCpuKernels(registry);
}

}  // namespace formwork
