#include "core/kernels/elementwise/elementwise_objects.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elementwise/elementwise_blocks.h"
#include "core/kernels/elementwise/elementwise_operand.h"
#include "core/kernels/variant/csr_matrix.h"
#include "core/kernels/variant/optional.h"
#include "core/kernels/variant/ragged_variant.h"
#include "core/ops/elementwise.h"
#include "core/ops/graph_dtype.h"

namespace formwork {
namespace {

// Where element i of the output comes from in an operand.
std::vector<int64_t> Places(const Shape& shape, const Shape& out) {
  std::vector<int64_t> own(shape.num_elements());
  for (size_t i = 0; i < own.size(); ++i) own[i] = static_cast<int64_t>(i);
  const Operand operand(own.data(), sizeof(int64_t), shape, out);
  std::vector<int64_t> places(out.num_elements());
  for (int64_t begin = 0; begin < out.num_elements(); begin += kBlockElements) {
    if (WorkIsCutAt(begin / kBlockElements)) break;
    const int64_t n = std::min(kBlockElements, out.num_elements() - begin);
    const void* run = operand.Run(begin, n, places.data() + begin);
    if (run != places.data() + begin) std::memcpy(places.data() + begin, run, n * sizeof(int64_t));
  }
  return places;
}

absl::StatusOr<KernelFn> MakeStringCompare(bool equal, bool shape_error) {
  return KernelFn([equal, shape_error](KernelContext& ctx) -> absl::Status {
    const Tensor& a = ctx.input(0);
    const Tensor& b = ctx.input(1);
    absl::StatusOr<Shape> shape = BroadcastShape(a.shape(), b.shape());
    if (!shape.ok() && !shape_error) {
      ctx.SetOutput(0, Tensor::Scalar(!equal));
      return absl::OkStatus();
    }
    if (!shape.ok()) return shape.status();
    const std::vector<int64_t> at = Places(a.shape(), *shape), bt = Places(b.shape(), *shape);
    FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kBool, *shape));
    bool* result = out->mutable_data<bool>();
    for (size_t i = 0; i < at.size(); ++i) {
      if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
      result[i] = (a.data<std::string>()[at[i]] == b.data<std::string>()[bt[i]]) == equal;
    }
    return absl::OkStatus();
  });
}

absl::Status JoinStrings(KernelContext& ctx) {
  const Tensor& a = ctx.input(0);
  const Tensor& b = ctx.input(1);
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, BroadcastShape(a.shape(), b.shape()));
  const std::vector<int64_t> at = Places(a.shape(), shape), bt = Places(b.shape(), shape);
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DType::kString, shape));
  std::string* result = out->mutable_data<std::string>();
  for (size_t i = 0; i < at.size(); ++i) {
    if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
    result[i] = a.data<std::string>()[at[i]] + b.data<std::string>()[bt[i]];
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status SelectObjects(KernelContext& ctx) {
  const Tensor& c = ctx.input(0);
  const Tensor& a = ctx.input(1);
  const Tensor& b = ctx.input(2);
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, BroadcastShape(a.shape(), b.shape()));
  FORMWORK_ASSIGN_OR_RETURN(shape, BroadcastShape(c.shape(), shape));
  const std::vector<int64_t> ct = Places(c.shape(), shape), at = Places(a.shape(), shape),
                             bt = Places(b.shape(), shape);
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, DTypeOf<T>::value, shape));
  T* result = out->mutable_data<T>();
  for (size_t i = 0; i < ct.size(); ++i) {
    if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
    result[i] = c.data<bool>()[ct[i]] ? a.data<T>()[at[i]] : b.data<T>()[bt[i]];
  }
  return absl::OkStatus();
}

absl::StatusOr<Variant> AddVariants(Allocator& allocator, const Variant& a, const Variant& b);

absl::StatusOr<Tensor> AddTensors(Allocator& allocator, const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) {
    return InvalidArgument("AddN: elements of variants have other shapes: ", a.shape().ToString(),
                           " vs. ", b.shape().ToString());
  }
  if (a.dtype() == DType::kVariant && b.dtype() == DType::kVariant) {
    FORMWORK_ASSIGN_OR_RETURN(Tensor sum, a.Clone(allocator));
    for (int64_t k = 0; k < sum.num_elements(); ++k) {
      Variant& target = sum.mutable_data<Variant>()[k];
      FORMWORK_ASSIGN_OR_RETURN(target, AddVariants(allocator, target, b.data<Variant>()[k]));
    }
    return sum;
  }
  const DType two[] = {a.dtype(), a.dtype()};
  const BlockOp* add = a.dtype() == b.dtype() ? FindBlockOp("AddV2", two, a.dtype()) : nullptr;
  if (add == nullptr) return InvalidArgument("AddN: elements of variants cannot be added");
  FORMWORK_ASSIGN_OR_RETURN(Tensor sum, Tensor::Allocate(allocator, a.dtype(), a.shape()));
  const void* operands[3] = {a.raw(), b.raw(), nullptr};
  add->fn(operands, sum.mutable_raw(), a.num_elements());
  return sum;
}

// Item by item; one that is not set is zero.
absl::StatusOr<Variant> AddLists(Allocator& allocator, const TensorList& a, const TensorList& b) {
  if (a.items.size() != b.items.size()) {
    return InvalidArgument("AddN: trying to add two lists of tensors with different lengths: ",
                           a.items.size(), " vs. ", b.items.size());
  }
  auto sum = std::make_shared<TensorList>(a);
  for (size_t i = 0; i < sum->items.size(); ++i) {
    if (!b.items[i].has_value()) continue;
    if (!a.items[i].has_value()) {
      sum->items[i] = b.items[i];
      continue;
    }
    FORMWORK_ASSIGN_OR_RETURN(sum->items[i], AddTensors(allocator, a.items[i], b.items[i]));
  }
  sum->nesting = std::max(a.nesting, b.nesting);
  return Variant(std::move(sum));
}

absl::StatusOr<Variant> AddOptionals(Allocator& allocator, const Optional& a, const Optional& b) {
  if (a.components.size() != b.components.size()) {
    return InvalidArgument(
        "Cannot add optionals because they have different numbers of components (",
        a.components.size(), " vs. ", b.components.size(), ").");
  }
  auto sum = std::make_shared<Optional>(a);
  for (size_t i = 0; i < sum->components.size(); ++i) {
    FORMWORK_ASSIGN_OR_RETURN(sum->components[i],
                              AddTensors(allocator, a.components[i], b.components[i]));
  }
  sum->nesting = std::max(a.nesting, b.nesting);
  return Variant(std::move(sum));
}

bool HaveEqualSplits(const RaggedVariant& a, const RaggedVariant& b) {
  for (size_t i = 0; i < a.splits.size(); ++i) {
    const Tensor& x = a.splits[i];
    const Tensor& y = b.splits[i];
    if (x.dtype() != y.dtype() || x.shape() != y.shape() ||
        std::memcmp(x.raw(), y.raw(), x.bytes()) != 0) {
      return false;
    }
  }
  return true;
}

absl::StatusOr<Variant> AddRagged(Allocator& allocator, const RaggedVariant& a,
                                  const RaggedVariant& b) {
  if (a.splits.size() != b.splits.size()) {
    return InvalidArgument("Can't add RaggedTensorVariants of different ragged rank. One is ",
                           a.splits.size(), " and the other is ", b.splits.size());
  }
  if (a.values.dtype() != b.values.dtype()) {
    return InvalidArgument("Can't add RaggedTensorVariants of different dtypes. One is ",
                           GraphDTypeName(a.values.dtype()), " and the other is ",
                           GraphDTypeName(b.values.dtype()));
  }
  if (!HaveEqualSplits(a, b)) {
    return InvalidArgument("Can't add RaggedTensorVariants with different row_splits.");
  }
  auto sum = std::make_shared<RaggedVariant>(a);
  FORMWORK_ASSIGN_OR_RETURN(sum->values, AddTensors(allocator, a.values, b.values));
  sum->nesting = std::max(a.nesting, b.nesting);
  return Variant(std::move(sum));
}

absl::StatusOr<Variant> AddVariants(Allocator& allocator, const Variant& a, const Variant& b) {
  const auto* list = dynamic_cast<const TensorList*>(a.get());
  const auto* other_list = dynamic_cast<const TensorList*>(b.get());
  if (list != nullptr && other_list != nullptr) return AddLists(allocator, *list, *other_list);
  const auto* optional = dynamic_cast<const Optional*>(a.get());
  const auto* other = dynamic_cast<const Optional*>(b.get());
  if (optional != nullptr && other != nullptr) return AddOptionals(allocator, *optional, *other);
  const auto* ragged = dynamic_cast<const RaggedVariant*>(a.get());
  const auto* other_ragged = dynamic_cast<const RaggedVariant*>(b.get());
  if (ragged != nullptr && other_ragged != nullptr) {
    return AddRagged(allocator, *ragged, *other_ragged);
  }
  return InvalidArgument("AddN: variants that are not two lists, optionals or ragged tensors");
}

absl::Status AddVariantTensors(KernelContext& ctx) {
  FORMWORK_RETURN_IF_ERROR(
      PrepareAddN(ctx.num_inputs(), [&](int i) { return ctx.input(i).shape().dims(); }).status());
  FORMWORK_ASSIGN_OR_RETURN(Tensor sum, ctx.input(0).Clone(ctx.allocator()));
  for (int i = 1; i < ctx.num_inputs(); ++i) {
    for (int64_t k = 0; k < sum.num_elements(); ++k) {
      Variant& target = sum.mutable_data<Variant>()[k];
      FORMWORK_ASSIGN_OR_RETURN(
          target, AddVariants(ctx.allocator(), target, ctx.input(i).data<Variant>()[k]));
    }
  }
  ctx.SetOutput(0, std::move(sum));
  return absl::OkStatus();
}

// Of a sparse matrix.
absl::Status ConjugateVariant(KernelContext& ctx) {
  FORMWORK_ASSIGN_OR_RETURN(const CsrPtr matrix, CsrMatrixOf(ctx.input(0), 0));
  FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<CsrMatrix> conjugated,
                            ConjugatedCsr(ctx.allocator(), *matrix));
  ctx.SetOutput(0, Tensor::VariantScalar(std::move(conjugated)));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<KernelFn> MakeObjectElementwise(KernelInit& init) {
  const std::string& name = init.op().name;
  const DType dtype = init.input_dtypes().back();
  if (dtype == DType::kString && (name == "Equal" || name == "NotEqual")) {
    return MakeStringCompare(name == "Equal", RefusesShapes(init.attrs()));
  }
  if (name == "AddN" && dtype == DType::kVariant) return KernelFn(AddVariantTensors);
  if (name == "Conj" && dtype == DType::kVariant) return KernelFn(ConjugateVariant);
  if (name == "Add" && dtype == DType::kString) return KernelFn(JoinStrings);
  if (name == "SelectV2" || name == "Select") {
    if (dtype == DType::kString) return KernelFn(SelectObjects<std::string>);
    if (dtype == DType::kVariant) return KernelFn(SelectObjects<Variant>);
  }
  return Unimplemented(name, ": dtype ", DTypeName(dtype), " is not supported");
}

}  // namespace formwork
