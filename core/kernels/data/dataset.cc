#include "core/kernels/data/dataset.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/data/position.h"
#include "core/kernels/kernel_function.h"
#include "core/kernels/variant/variant_nesting.h"

namespace formwork {

absl::StatusOr<bool> Iterator::Next(IterationContext& ctx, Element& element) {
  element.clear();
  if (at_end()) return false;
  FORMWORK_RETURN_IF_ERROR(ctx.Look());
  absl::StatusOr<bool> made = (*next_)(ctx, element);
  if (made.ok() && !*made) next_.reset();
  if (!made.ok() || !*made) element.clear();
  return made;
}

absl::Status Iterator::Keep(Position& position) {
  bool open = !at_end();
  FORMWORK_RETURN_IF_ERROR(position.Keep(open));
  if (!open) next_.reset();
  if (at_end()) return open ? position.Unfit() : absl::OkStatus();
  const absl::Status kept = next_->Keep(position);
  return absl::IsUnimplemented(kept) && !op_.empty() ? Annotate(kept, op_) : kept;
}

absl::StatusOr<Iterator> Dataset::Begin(IterationContext& ctx) const {
  FORMWORK_RETURN_IF_ERROR(ctx.Look());
  FORMWORK_ASSIGN_OR_RETURN(NextFn next, begin(ctx));
  return Iterator(std::move(next), made_by == nullptr ? absl::string_view() : made_by->op);
}

std::shared_ptr<Dataset> NewDataset(ElementSpec spec, int64_t cardinality, BeginFn begin) {
  auto dataset = std::make_shared<Dataset>();
  dataset->spec = std::move(spec);
  dataset->cardinality = cardinality;
  dataset->begin = std::move(begin);
  return dataset;
}

int64_t RepeatedCardinality(int64_t once, int64_t count) {
  if (count == 0 || once == 0) return 0;
  if (count < 0) return Dataset::kInfinite;
  if (once < 0) return once;
  const int64_t most = std::numeric_limits<int64_t>::max();
  return once > most / count ? most : once * count;
}

absl::StatusOr<DatasetPtr> DatasetFromTensor(const Tensor& tensor) {
  if (tensor.dtype() != DType::kVariant || tensor.rank() != 0) {
    return InvalidArgument("Dataset tensor must be a scalar of dtype variant: ",
                           DTypeName(tensor.dtype()), tensor.shape().ToString());
  }
  DatasetPtr dataset = std::dynamic_pointer_cast<const Dataset>(tensor.scalar<Variant>());
  if (dataset == nullptr) return InvalidArgument("Tensor must be a Dataset object.");
  return dataset;
}

bool IsQuiet(const Tensor& tensor) {
  if (tensor.dtype() != DType::kVariant) return true;
  if (tensor.rank() != 0) return false;
  const auto* const dataset = dynamic_cast<const Dataset*>(tensor.scalar<Variant>().get());
  return dataset != nullptr && dataset->quiet;
}

bool InputsAreQuiet(KernelContext& ctx) {
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    if (!IsQuiet(ctx.input(i))) return false;
  }
  return true;
}

namespace {

// What a node's functions do to resources.
using Functions = std::vector<std::shared_ptr<const KernelFunction>>;

// What a dataset of these inputs uses, where `functions` have captured the resources among them.
std::shared_ptr<const UsedResources> UsesOf(KernelContext& ctx, const Functions& functions) {
  UsedResources own;
  const auto note = [&own](ResourceHandle handle, Access access) {
    if (handle.id != 0 && access != Access::kNone) own.push_back({handle.id, access});
  };
  Access access = Access::kNone;
  for (const auto& function : functions) {
    access = std::max(access, function->access);
    for (int named : function->named) note(ctx.call().named_resource(named), function->access);
  }
  std::shared_ptr<const UsedResources> all;  // Of the inputs: often of one alone, which is shared.
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    const Tensor& input = ctx.input(i);
    if (input.dtype() == DType::kResource) {
      for (int64_t k = 0; k < input.num_elements(); ++k) {
        note(input.data<ResourceHandle>()[k], access);
      }
    } else if (input.dtype() == DType::kVariant && input.rank() == 0) {
      const auto* const below = dynamic_cast<const Dataset*>(input.scalar<Variant>().get());
      if (below == nullptr || below->used == nullptr || below->used == all) continue;
      if (all != nullptr) own.insert(own.end(), all->begin(), all->end());
      all = below->used;
    }
  }
  if (own.empty()) return all;
  if (all != nullptr) own.insert(own.end(), all->begin(), all->end());
  // Of several uses of one resource the strongest comes first.
  std::sort(own.begin(), own.end(), [](const UsedResource& a, const UsedResource& b) {
    return a.id != b.id ? a.id < b.id : a.access > b.access;
  });
  own.erase(std::unique(own.begin(), own.end(),
                        [](const UsedResource& a, const UsedResource& b) { return a.id == b.id; }),
            own.end());
  return std::make_shared<const UsedResources>(std::move(own));
}

}  // namespace

absl::StatusOr<KernelFn> DatasetKernel(KernelInit& init, MakeDataset make) {
  auto node = std::make_shared<DatasetNode>();
  node->op = init.op().name;
  node->attrs = init.attrs();
  Functions functions;
  if (init.op().control_flow == ControlFlow::kKernel) {
    functions.resize(FunctionsOf(init.op(), init.attrs()).size());
    for (size_t i = 0; i < functions.size(); ++i) {
      FORMWORK_ASSIGN_OR_RETURN(functions[i], init.Function(i));
    }
    if (functions.empty()) return InvalidArgument("it names no function");
    node->definitions = functions[0]->definitions;
  }
  return KernelFn([make = std::move(make), node,
                   functions = std::move(functions)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<Dataset> dataset, make(ctx));
    dataset->made_by = node;
    dataset->used = UsesOf(ctx, functions);
    dataset->quiet =
        InputsAreQuiet(ctx) && std::all_of(functions.begin(), functions.end(),
                                           [](const auto& function) { return function->quiet; });
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      FORMWORK_RETURN_IF_ERROR(CountNesting(*dataset, ctx.input(i)));
      dataset->inputs.push_back(ctx.input(i));
    }
    ctx.SetOutput(0, Tensor::VariantScalar(std::move(dataset)));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> DatasetKernel(KernelInit& init, MakeOnDataset make) {
  return DatasetKernel(
      init, MakeDataset([make = std::move(make)](
                            KernelContext& ctx) -> absl::StatusOr<std::shared_ptr<Dataset>> {
        FORMWORK_ASSIGN_OR_RETURN(DatasetPtr input, DatasetFromTensor(ctx.input(0)));
        return make(ctx, std::move(input));
      }));
}

template <typename T>
absl::StatusOr<T> ScalarInput(KernelContext& ctx, int i, absl::string_view name) {
  const Tensor& input = ctx.input(i);
  if (input.rank() == 0 && input.dtype() == DTypeOf<T>::value) return input.scalar<T>();
  return InvalidArgument(name, " must be a scalar");
}
template absl::StatusOr<int64_t> ScalarInput(KernelContext&, int, absl::string_view);
template absl::StatusOr<bool> ScalarInput(KernelContext&, int, absl::string_view);
template absl::StatusOr<std::string> ScalarInput(KernelContext&, int, absl::string_view);

absl::StatusOr<Tensor> RowOf(Allocator& allocator, const Tensor& value, const Shape& shape,
                             int64_t i) {
  constexpr size_t kMostAtOnce = size_t{256} << 10;  // Bytes; of more the copy is split.
  const DType dtype = value.dtype();
  const size_t bytes = static_cast<size_t>(shape.num_elements()) * DTypeSize(dtype);
  if (dtype == DType::kString && shape.rank() == 0) {
    return Tensor::StringScalar(value.data<std::string>()[i]);
  }
  if (!IsPlainData(dtype) || bytes > kMostAtOnce) {
    FORMWORK_ASSIGN_OR_RETURN(Tensor row, SliceAlong(allocator, value, 0, i, 1));
    FORMWORK_RETURN_IF_ERROR(WorkStatus());
    return std::move(row).Reshaped(shape);
  }
  Tensor row;
  if (!row.ResetInside(dtype, shape)) {
    FORMWORK_ASSIGN_OR_RETURN(row, Tensor::Allocate(allocator, dtype, shape));
  }
  std::memcpy(row.mutable_raw(), value.data<char>() + static_cast<size_t>(i) * bytes, bytes);
  return row;
}

absl::StatusOr<int64_t> RowsOf(const Element& element) {
  for (size_t c = 0; c < element.size(); ++c) {
    if (element[c].rank() == 0) {
      return InvalidArgument("Input element must have a non-scalar value in each component.");
    }
    if (element[c].dim(0) != element[0].dim(0)) {
      return InvalidArgument("Input element must have the same batch size in each component. ",
                             "Component 0 had size ", element[0].dim(0), " but component ", c,
                             " had size ", element[c].dim(0), ".");
    }
  }
  return element.empty() ? 0 : element[0].dim(0);
}

}  // namespace formwork
