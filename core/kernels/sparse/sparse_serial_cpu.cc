// Sparse tensors as elements of dtype variant or string: the three parts of each, and a batch put
// together.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/index_values.h"
#include "core/kernels/serialized_tensor.h"
#include "core/kernels/shape_tensor.h"
#include "core/kernels/sparse/sparse_cpu.h"
#include "core/kernels/variant/tensor_part.h"
#include "core/ops/graph_dtype.h"
#include "core/ops/sparse.h"

namespace formwork {
namespace {

absl::Status CheckParts(KernelContext& ctx) {
  return CheckSparse(
      {ctx.input(0).shape().dims(), ctx.input(1).shape().dims(), ctx.input(2).shape().dims()});
}

// Makes `part` element `i` of `serialized`.
absl::Status Store(Tensor part, int64_t i, Tensor& serialized) {
  if (serialized.dtype() == DType::kVariant) {
    FORMWORK_ASSIGN_OR_RETURN(serialized.mutable_data<Variant>()[i], PartOf(std::move(part)));
  } else {
    FORMWORK_ASSIGN_OR_RETURN(serialized.mutable_data<std::string>()[i],
                              SerializedTensor(part, StringsAs::kContent));
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeSerialize(KernelInit& init) {
  const DType form = init.output_dtypes()[0];
  return KernelFn([form](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckParts(ctx));
    FORMWORK_ASSIGN_OR_RETURN(Tensor serialized, Tensor::Allocate(ctx.allocator(), form, Shape{3}));
    for (int i = 0; i < 3; ++i) {
      FORMWORK_RETURN_IF_ERROR(Store(ctx.TakeInput(i), i, serialized));
    }
    ctx.SetOutput(0, std::move(serialized));
    return absl::OkStatus();
  });
}

absl::StatusOr<KernelFn> MakeSerializeMany(KernelInit& init) {
  const DType form = init.output_dtypes()[0];
  return KernelFn([form](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(CheckParts(ctx));
    const Tensor values = ctx.input(1);
    const IndexValues indices(ctx.input(0));
    const IndexValues dims(ctx.input(2));
    const int64_t rank = dims.size();
    if (rank <= 1) {
      return InvalidArgument("Rank of input SparseTensor should be > 1, but saw rank: ", rank);
    }
    FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make({dims[0], 3}));
    FORMWORK_ASSIGN_OR_RETURN(Tensor serialized, Tensor::Allocate(ctx.allocator(), form, shape));
    int64_t at = 0;
    for (int64_t row = 0; row < dims[0]; ++row) {
      if (WorkIsCutAt(row, kDearItems)) return WorkStatus();
      int64_t end = at;
      while (end < values.num_elements() && indices[end * rank] == row) ++end;
      const int64_t n = end - at;
      FORMWORK_ASSIGN_OR_RETURN(
          Tensor own, Tensor::Allocate(ctx.allocator(), DType::kInt64, Shape{n, rank - 1}));
      for (int64_t i = 0; i < n; ++i) {
        std::copy_n(indices.span().begin() + (at + i) * rank + 1, rank - 1,
                    own.mutable_data<int64_t>() + i * (rank - 1));
      }
      FORMWORK_ASSIGN_OR_RETURN(Tensor part,
                                Tensor::Allocate(ctx.allocator(), values.dtype(), Shape{n}));
      ByElement(values.dtype(), [&](auto tag) {
        using E = typename decltype(tag)::type;
        CopyElements(static_cast<const E*>(values.raw()) + at, n,
                     static_cast<E*>(part.mutable_raw()));
      });
      FORMWORK_ASSIGN_OR_RETURN(Tensor size,
                                Tensor::Allocate(ctx.allocator(), DType::kInt64, Shape{rank - 1}));
      std::copy_n(dims.span().begin() + 1, rank - 1, size.mutable_data<int64_t>());
      FORMWORK_RETURN_IF_ERROR(Store(std::move(own), row * 3, serialized));
      FORMWORK_RETURN_IF_ERROR(Store(std::move(part), row * 3 + 1, serialized));
      FORMWORK_RETURN_IF_ERROR(Store(std::move(size), row * 3 + 2, serialized));
      at = end;
    }
    if (at != values.num_elements()) {
      return InvalidArgument("Indices are not valid: not in order, or out of bounds");
    }
    ctx.SetOutput(0, std::move(serialized));
    return absl::OkStatus();
  });
}

// --- DeserializeSparse --------------------------------------------------------------------------

struct SparseParts {
  Tensor indices;
  Tensor values;
  Tensor shape;
};

// Sparse tensor `i` of those in `serialized`.
absl::StatusOr<SparseParts> PartsAt(const Tensor& serialized, int64_t i, DType dtype,
                                    Allocator& allocator) {
  Tensor tensors[3];
  for (int64_t k = 0; k < 3; ++k) {
    if (serialized.dtype() == DType::kString) {
      FORMWORK_ASSIGN_OR_RETURN(
          tensors[k], ParseSerializedTensor(serialized.data<std::string>()[i * 3 + k], allocator));
      continue;
    }
    const auto* part = dynamic_cast<const TensorPart*>(serialized.data<Variant>()[i * 3 + k].get());
    if (part == nullptr)
      return InvalidArgument("Could not get a tensor from serialized_sparse[", i, ", ", k, "]");
    tensors[k] = part->tensor;
  }
  SparseParts parts = {std::move(tensors[0]), std::move(tensors[1]), std::move(tensors[2])};
  if (parts.indices.dtype() != DType::kInt64 || parts.indices.rank() != 2) {
    return InvalidArgument("Expected serialized_sparse[", i,
                           ", 0] to represent an index matrix but received shape ",
                           parts.indices.shape().ToString());
  }
  if (parts.values.rank() != 1) {
    return InvalidArgument("Expected serialized_sparse[", i,
                           ", 1] to represent a values vector but received shape ",
                           parts.values.shape().ToString());
  }
  if (parts.shape.dtype() != DType::kInt64 || parts.shape.rank() != 1) {
    return InvalidArgument("Expected serialized_sparse[", i,
                           ", 2] to represent a shape vector but received shape ",
                           parts.shape.shape().ToString());
  }
  if (parts.values.dtype() != dtype) {
    return InvalidArgument("Requested SparseTensor of type ", GraphDTypeName(dtype),
                           " but SparseTensor[", i,
                           "].values.dtype() == ", GraphDTypeName(parts.values.dtype()));
  }
  FORMWORK_RETURN_IF_ERROR(CheckSparse(
      {parts.indices.shape().dims(), parts.values.shape().dims(), parts.shape.shape().dims()}));
  return parts;
}

absl::Status Deserialize(KernelContext& ctx, DType dtype) {
  const Tensor serialized = ctx.input(0);
  FORMWORK_ASSIGN_OR_RETURN(const int64_t count, CountSerialized(serialized.shape().dims()));
  const int outer = serialized.rank() - 1;
  if (count == 0) {
    return InvalidArgument(
        "Serialized sparse should have non-zero number of sparse tensors, but received shape ",
        serialized.shape().ToString());
  }
  std::vector<SparseParts> all;
  int64_t total = 0;
  Dims inner;
  for (int64_t i = 0; i < count; ++i) {
    if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
    FORMWORK_ASSIGN_OR_RETURN(SparseParts parts, PartsAt(serialized, i, dtype, ctx.allocator()));
    const absl::Span<const int64_t> dims = parts.shape.span<int64_t>();
    if (i == 0) inner.assign(dims.begin(), dims.end());
    if (inner.size() != dims.size()) {
      return InvalidArgument("Inconsistent shape across SparseTensors: rank prior to SparseTensor[",
                             i, "] was: ", inner.size(), " but rank of SparseTensor[", i,
                             "] is: ", dims.size());
    }
    for (size_t d = 0; d < inner.size(); ++d) inner[d] = std::max(inner[d], dims[d]);
    total += parts.values.num_elements();
    all.push_back(std::move(parts));
  }
  const int64_t rank = outer + static_cast<int64_t>(inner.size());
  FORMWORK_ASSIGN_OR_RETURN(const Shape indices_shape, Shape::Make({total, rank}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor indices,
                            Tensor::Allocate(ctx.allocator(), DType::kInt64, indices_shape));
  FORMWORK_ASSIGN_OR_RETURN(Tensor values, Tensor::Allocate(ctx.allocator(), dtype, Shape{total}));
  int64_t* to = indices.mutable_data<int64_t>();
  int64_t made = 0;
  for (int64_t i = 0; i < count; ++i) {
    const SparseParts& parts = all[static_cast<size_t>(i)];
    const int64_t n = parts.values.num_elements();
    const int64_t* from = parts.indices.data<int64_t>();
    for (int64_t k = 0; k < n; ++k, to += rank) {
      if (WorkIsCutAt(made + k)) return WorkStatus();
      int64_t rest = i;
      for (int d = outer - 1; d >= 0; --d) {
        to[d] = rest % serialized.dim(d);
        rest /= serialized.dim(d);
      }
      std::copy_n(from, inner.size(), to + outer);
      from += inner.size();
    }
    ByElement(dtype, [&](auto tag) {
      using E = typename decltype(tag)::type;
      CopyElements(static_cast<const E*>(parts.values.raw()), n,
                   static_cast<E*>(values.mutable_raw()) + made);
    });
    made += n;
  }
  ctx.SetOutput(0, std::move(indices));
  ctx.SetOutput(1, std::move(values));
  Dims dims(serialized.shape().dims().begin(), serialized.shape().dims().end() - 1);
  dims.insert(dims.end(), inner.begin(), inner.end());
  return OutputIntegers(ctx, 2, DType::kInt64, dims);
}

absl::StatusOr<KernelFn> MakeDeserialize(KernelInit& init) {
  const DType dtype = init.output_dtypes()[1];
  return KernelFn([dtype](KernelContext& ctx) { return Deserialize(ctx, dtype); });
}

}  // namespace

void AddSparseSerialCpuKernels(KernelRegistry& registry) {
  registry.Add("SerializeSparse", MakeSerialize);
  registry.Add("SerializeManySparse", MakeSerializeMany);
  registry.Add("DeserializeSparse", MakeDeserialize);
  registry.Add("DeserializeManySparse", MakeDeserialize);
}

}  // namespace formwork
