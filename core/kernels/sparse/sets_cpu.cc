// Sets along the last dimension of dense and sparse tensors: differences, intersections, unions and
// sizes. A set is the sorted distinct values of a group, which the other dimensions' index names.

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/shape_tensor.h"
#include "core/kernels/sparse/sparse_cpu.h"
#include "core/kernels/strided_copy.h"
#include "core/ops/dims.h"
#include "core/ops/sparse.h"

namespace formwork {
namespace {

template <typename T>
struct Group {
  int64_t number;  // Row-major, of all that the group's dimensions have.
  std::vector<T> values;
};
template <typename T>
using Groups = std::vector<Group<T>>;  // By number; those that are missing are empty.

template <typename T>
void MakeSet(std::vector<T>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

template <typename T>
absl::StatusOr<Groups<T>> DenseGroups(const Tensor& dense) {
  Groups<T> groups;
  const int64_t width = dense.dim(dense.rank() - 1);
  const int64_t count =
      ProductOf(dense.shape().dims().first(static_cast<size_t>(dense.rank()) - 1));
  for (int64_t i = 0; i < count; ++i) {
    if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
    const T* begin = dense.data<T>() + i * width;
    groups.push_back({i, std::vector<T>(begin, begin + width)});
    MakeSet(groups.back().values);
  }
  return groups;
}

struct SparseInput {
  const Tensor* indices;
  const Tensor* values;
  const Tensor* shape;
};

// In order, and within the shape. Where `validate` is false only the bounds are looked at.
absl::Status CheckIndices(const SparseInput& sparse, bool validate) {
  FORMWORK_RETURN_IF_ERROR(
      CheckSparse({sparse.indices->shape().dims(), sparse.values->shape().dims(),
                   sparse.shape->shape().dims()}));
  const absl::Span<const int64_t> dims = sparse.shape->span<int64_t>();
  if (dims.size() < 2) {
    return InvalidArgument("Invalid rank ", dims.size(), " of a set: there must be 2 or more");
  }
  FORMWORK_RETURN_IF_ERROR(Shape::Make(dims).status());
  const absl::Span<const int64_t> indices = sparse.indices->span<int64_t>();
  for (int64_t i = 0; i < sparse.indices->dim(0); ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    const auto index = indices.subspan(static_cast<size_t>(i) * dims.size(), dims.size());
    for (size_t d = 0; d < dims.size(); ++d) {
      if (index[d] >= 0 && index[d] < dims[d]) continue;
      return InvalidArgument("indices[", i, "] = ", IndexText(index),
                             " is out of bounds: need 0 <= index < ", IndexText(dims));
    }
    if (!validate || i == 0) continue;
    const auto before = indices.subspan(static_cast<size_t>(i - 1) * dims.size(), dims.size());
    if (!(before < index)) {
      return InvalidArgument("indices[", i, "] = ", IndexText(index), " is ",
                             before == index ? "repeated" : "out of order");
    }
  }
  return absl::OkStatus();
}

template <typename T>
absl::StatusOr<Groups<T>> SparseGroups(const SparseInput& sparse) {
  const absl::Span<const int64_t> dims = sparse.shape->span<int64_t>();
  const Dims strides = RowMajorStrides(Shape::Trusted(dims.first(dims.size() - 1)));
  Groups<T> groups;
  for (int64_t i = 0; i < sparse.indices->dim(0); ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    int64_t number = 0;
    for (size_t d = 0; d < strides.size(); ++d) {
      number +=
          sparse.indices->data<int64_t>()[static_cast<size_t>(i) * dims.size() + d] * strides[d];
    }
    if (groups.empty() || groups.back().number != number) groups.push_back({number, {}});
    groups.back().values.push_back(sparse.values->data<T>()[i]);
  }
  // Out of order where indices are not validated.
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group<T>& a, const Group<T>& b) { return a.number < b.number; });
  for (Group<T>& group : groups) MakeSet(group.values);
  return groups;
}

enum class SetOp : uint8_t { kAMinusB, kBMinusA, kIntersection, kUnion };

absl::StatusOr<SetOp> SetOpOf(const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(std::string name, attrs.Get<std::string>("set_operation"));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  if (name == "a-b") return SetOp::kAMinusB;
  if (name == "b-a") return SetOp::kBMinusA;
  if (name == "intersection") return SetOp::kIntersection;
  if (name == "union") return SetOp::kUnion;
  return InvalidArgument("Invalid set_operation ", name, ".");
}

template <typename T>
std::vector<T> Combine(SetOp op, const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<T> made;
  const auto out = std::back_inserter(made);
  switch (op) {
    case SetOp::kAMinusB:
      std::set_difference(a.begin(), a.end(), b.begin(), b.end(), out);
      break;
    case SetOp::kBMinusA:
      std::set_difference(b.begin(), b.end(), a.begin(), a.end(), out);
      break;
    case SetOp::kIntersection:
      std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), out);
      break;
    case SetOp::kUnion:
      std::set_union(a.begin(), a.end(), b.begin(), b.end(), out);
      break;
  }
  return made;
}

template <typename T>
absl::Status OutputSets(KernelContext& ctx, SetOp op, const Groups<T>& a, const Groups<T>& b,
                        const Dims& outer, DType dtype) {
  Groups<T> made;
  int64_t total = 0;
  size_t longest = 0;
  const std::vector<T> none;
  for (size_t i = 0, k = 0; i < a.size() || k < b.size();) {
    if (WorkIsCutAt(static_cast<int64_t>(i + k), kDearItems)) return WorkStatus();
    const int64_t at_a = i < a.size() ? a[i].number : std::numeric_limits<int64_t>::max();
    const int64_t at_b = k < b.size() ? b[k].number : std::numeric_limits<int64_t>::max();
    const int64_t number = std::min(at_a, at_b);
    const std::vector<T>& of_a = at_a == number ? a[i++].values : none;
    const std::vector<T>& of_b = at_b == number ? b[k++].values : none;
    made.push_back({number, Combine(op, of_a, of_b)});
    total += static_cast<int64_t>(made.back().values.size());
    longest = std::max(longest, made.back().values.size());
  }
  const int64_t rank = static_cast<int64_t>(outer.size()) + 1;
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make({total, rank}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor indices,
                            Tensor::Allocate(ctx.allocator(), DType::kInt64, shape));
  FORMWORK_ASSIGN_OR_RETURN(Tensor values, Tensor::Allocate(ctx.allocator(), dtype, Shape{total}));
  int64_t* index = indices.mutable_data<int64_t>();
  T* value = values.mutable_data<T>();
  for (const Group<T>& group : made) {
    for (size_t i = 0; i < group.values.size(); ++i, index += rank) {
      if (WorkIsCutAt(value - values.data<T>(), kDearItems)) return WorkStatus();
      int64_t rest = group.number;
      for (int64_t d = rank - 2; d >= 0; --d) {
        index[d] = rest % outer[static_cast<size_t>(d)];
        rest /= outer[static_cast<size_t>(d)];
      }
      index[rank - 1] = static_cast<int64_t>(i);
      *value++ = group.values[i];
    }
  }
  ctx.SetOutput(0, std::move(indices));
  ctx.SetOutput(1, std::move(values));
  Dims dims = outer;
  dims.push_back(static_cast<int64_t>(longest));
  return OutputIntegers(ctx, 2, DType::kInt64, dims);
}

// One of an op's two sets: how many inputs it takes, and its dimensions but the last.
struct SetInput {
  bool sparse;
  int first;

  SparseInput Parts(KernelContext& ctx) const {
    return {&ctx.input(first), &ctx.input(first + 1), &ctx.input(first + 2)};
  }
  absl::StatusOr<Dims> Outer(KernelContext& ctx, bool validate) const {
    if (sparse) {
      FORMWORK_RETURN_IF_ERROR(CheckIndices(Parts(ctx), validate));
      const absl::Span<const int64_t> dims = ctx.input(first + 2).span<int64_t>();
      return Dims(dims.begin(), dims.end() - 1);
    }
    const Shape& shape = ctx.input(first).shape();
    if (shape.rank() < 2) {
      return InvalidArgument("Invalid rank ", shape.rank(), " of a set: there must be 2 or more");
    }
    return Dims(shape.dims().begin(), shape.dims().end() - 1);
  }
  template <typename T>
  absl::StatusOr<Groups<T>> GroupsOf(KernelContext& ctx) const {
    return sparse ? SparseGroups<T>(Parts(ctx)) : DenseGroups<T>(ctx.input(first));
  }
};

#define FORMWORK_SET_CASES(...)        \
  FORMWORK_CASE(int8_t, __VA_ARGS__)   \
  FORMWORK_CASE(int16_t, __VA_ARGS__)  \
  FORMWORK_CASE(int32_t, __VA_ARGS__)  \
  FORMWORK_CASE(int64_t, __VA_ARGS__)  \
  FORMWORK_CASE(uint8_t, __VA_ARGS__)  \
  FORMWORK_CASE(uint16_t, __VA_ARGS__) \
  FORMWORK_CASE(std::string, __VA_ARGS__)

template <typename T>
absl::Status RunSetOp(KernelContext& ctx, SetOp op, const SetInput& a, const SetInput& b,
                      const Dims& outer, DType dtype) {
  FORMWORK_ASSIGN_OR_RETURN(const Groups<T> of_a, a.GroupsOf<T>(ctx));
  FORMWORK_ASSIGN_OR_RETURN(const Groups<T> of_b, b.GroupsOf<T>(ctx));
  return OutputSets<T>(ctx, op, of_a, of_b, outer, dtype);
}

template <bool kSparseA, bool kSparseB>
absl::StatusOr<KernelFn> MakeSetOp(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const SetOp op, SetOpOf(init.attrs()));
  FORMWORK_ASSIGN_OR_RETURN(const bool validate, init.attrs().Get<bool>("validate_indices"));
  const DType dtype = init.output_dtypes()[1];
  return KernelFn([op, validate, dtype](KernelContext& ctx) -> absl::Status {
    const SetInput a = {kSparseA, 0};
    const SetInput b = {kSparseB, kSparseA ? 3 : 1};
    FORMWORK_ASSIGN_OR_RETURN(const Dims outer, a.Outer(ctx, validate));
    FORMWORK_ASSIGN_OR_RETURN(const Dims other, b.Outer(ctx, validate));
    if (outer != other) {
      return InvalidArgument("Mismatched group shapes: ", IndexText(outer), " vs ",
                             IndexText(other), ".");
    }
    switch (dtype) {
      FORMWORK_SET_CASES(return RunSetOp<T>(ctx, op, a, b, outer, dtype))
      default:
        return Unimplemented("sets of dtype ", DTypeName(dtype), " are not supported");
    }
  });
}

template <typename T>
absl::Status CountSets(const SparseInput& sparse, Tensor& sizes) {
  FORMWORK_ASSIGN_OR_RETURN(const Groups<T> groups, SparseGroups<T>(sparse));
  for (const Group<T>& group : groups) {
    sizes.mutable_data<int32_t>()[group.number] = static_cast<int32_t>(group.values.size());
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeSetSize(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool validate, init.attrs().Get<bool>("validate_indices"));
  return KernelFn([validate](KernelContext& ctx) -> absl::Status {
    const SetInput set = {true, 0};
    FORMWORK_ASSIGN_OR_RETURN(const Dims outer, set.Outer(ctx, validate));
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(outer));
    FORMWORK_ASSIGN_OR_RETURN(Tensor sizes,
                              Tensor::Allocate(ctx.allocator(), DType::kInt32, shape));
    ZeroElements(sizes);
    const auto run = [&]() -> absl::Status {
      switch (ctx.input(1).dtype()) {
        FORMWORK_SET_CASES(return CountSets<T>(set.Parts(ctx), sizes))
        default:
          return Unimplemented("sets of dtype ", DTypeName(ctx.input(1).dtype()),
                               " are not supported");
      }
    };
    FORMWORK_RETURN_IF_ERROR(run());
    ctx.SetOutput(0, std::move(sizes));
    return absl::OkStatus();
  });
}

}  // namespace

void AddSetCpuKernels(KernelRegistry& registry) {
  registry.Add("DenseToDenseSetOperation", MakeSetOp<false, false>);
  registry.Add("DenseToSparseSetOperation", MakeSetOp<false, true>);
  registry.Add("SparseToSparseSetOperation", MakeSetOp<true, true>);
  registry.Add("SetSize", MakeSetSize);
}

}  // namespace formwork
