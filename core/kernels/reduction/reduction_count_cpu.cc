// DenseCountSparseOutput, SparseCountSparseOutput, RaggedCountSparseOutput: how often each value
// is in each row, without the values that are in none.

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/index_values.h"
#include "core/kernels/reduction/reduction.h"
#include "core/kernels/sort_pieces.h"
#include "core/ops/reduction.h"

namespace formwork {
namespace {

struct Rows {
  int64_t count = 1;
  bool vector = false;      // There is one row, and no dimension for it.
  std::vector<int64_t> of;  // The row of each value.
};

absl::Status CheckWeights(const Tensor& weights, const Tensor& values, absl::string_view what) {
  if (weights.num_elements() == 0 || weights.shape() == values.shape()) return absl::OkStatus();
  return InvalidArgument("Weights and ", what,
                         " must have the same shape. Weight shape: ", weights.shape().ToString(),
                         "; ", what, " shape: ", values.shape().ToString());
}

// Where counts are integers they wrap around.
template <typename W>
using CountOf = std::conditional_t<
    std::is_floating_point_v<W>, W,
    std::make_unsigned_t<std::conditional_t<std::is_floating_point_v<W>, int64_t, W>>>;

template <typename W>
absl::Status Count(KernelContext& ctx, const CountAttrs& attrs, const IndexValues& values,
                   const Tensor& weights, const Rows& rows) {
  std::vector<int64_t> order;
  order.reserve(static_cast<size_t>(values.size()));
  int64_t largest = 0;  // As TensorFlow has it where there is no value.
  for (int64_t i = 0; i < values.size(); ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    if (values[i] < 0) return InvalidArgument("Input values must all be non-negative");
    if (attrs.maxlength >= 0 && values[i] >= attrs.maxlength) continue;
    largest = std::max(largest, values[i]);
    order.push_back(i);
  }
  // Positions as the last key: what is added up is so in the order in which it is given.
  SortPieces(order, [&](int64_t a, int64_t b) {
    if (rows.of[a] != rows.of[b]) return rows.of[a] < rows.of[b];
    return values[a] != values[b] ? values[a] < values[b] : a < b;
  });
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  const auto same = [&](int64_t a, int64_t b) {
    return rows.of[a] == rows.of[b] && values[a] == values[b];
  };
  int64_t n = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (WorkIsCutAt(static_cast<int64_t>(i))) return WorkStatus();
    if (i == 0 || !same(order[i - 1], order[i])) ++n;
  }
  const int64_t rank = rows.vector ? 1 : 2;
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const indices,
                            ctx.AllocateOutput(0, DType::kInt64, Shape{n, rank}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const counts, ctx.AllocateOutput(1, weights.dtype(), Shape{n}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor* const dense, ctx.AllocateOutput(2, DType::kInt64, Shape{rank}));
  auto* const index = indices->mutable_data<int64_t>();
  auto* const count = counts->mutable_data<CountOf<W>>();
  const auto* const weight = weights.data<CountOf<W>>();
  int64_t at = -1;
  for (size_t i = 0; i < order.size(); ++i) {
    if (WorkIsCutAt(static_cast<int64_t>(i))) return WorkStatus();
    if (i == 0 || !same(order[i - 1], order[i])) {
      ++at;
      if (!rows.vector) index[2 * at] = rows.of[order[i]];
      index[at * rank + rank - 1] = values[order[i]];
      count[at] = CountOf<W>(attrs.binary_output ? 1 : 0);
    }
    if (!attrs.binary_output) {
      count[at] += weights.num_elements() == 0 ? CountOf<W>(1) : weight[order[i]];
    }
  }
  auto* const sizes = dense->mutable_data<int64_t>();
  if (!rows.vector) sizes[0] = rows.count;
  // The largest value may be the largest integer.
  const int64_t seen = static_cast<int64_t>(static_cast<uint64_t>(largest) + 1);
  sizes[rank - 1] = attrs.maxlength >= 0 ? attrs.maxlength : std::max(seen, attrs.minlength);
  return absl::OkStatus();
}

absl::StatusOr<Rows> DenseRows(const Tensor& values) {
  if (values.rank() != 1 && values.rank() != 2) {
    return InvalidArgument("Input must be a 1 or 2-dimensional tensor. Got: ",
                           values.shape().ToString());
  }
  Rows rows;
  rows.vector = values.rank() == 1;
  if (!rows.vector) rows.count = values.dim(0);
  rows.of.resize(static_cast<size_t>(values.num_elements()));
  const int64_t columns = rows.vector ? 1 : values.dim(1);
  for (int64_t i = 0; i < values.num_elements(); ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    if (!rows.vector) rows.of[i] = i / columns;
  }
  return rows;
}

absl::StatusOr<Rows> SparseRows(const Tensor& indices, const Tensor& values, const Tensor& dense) {
  if (indices.rank() != 2) {
    return InvalidArgument("Input indices must be a 2-dimensional tensor. Got: ",
                           indices.shape().ToString());
  }
  if (values.rank() != 1) {
    return InvalidArgument("Input values must be a vector. Got: ", values.shape().ToString());
  }
  if (dense.rank() != 1) {
    return InvalidArgument("Input shape must be a vector. Got: ", dense.shape().ToString());
  }
  if (values.dim(0) != indices.dim(0)) {
    return InvalidArgument("Number of values must match first dimension of indices.Got ",
                           values.dim(0), " values, indices shape: ", indices.shape().ToString());
  }
  const int64_t rank = dense.dim(0);
  if (rank != indices.dim(1)) {
    return InvalidArgument("Number of dimensions must match second dimension of indices.Got ", rank,
                           " dimensions, indices shape: ", indices.shape().ToString());
  }
  if (rank == 0) return InvalidArgument("The shape argument requires at least one element.");
  const auto sizes = dense.span<int64_t>();
  Rows rows;
  rows.vector = rank == 1;
  if (!rows.vector) rows.count = sizes[0];
  rows.of.resize(static_cast<size_t>(values.num_elements()));
  const auto* at = indices.data<int64_t>();
  for (int64_t i = 0; i < values.num_elements(); ++i, at += rank) {
    if (WorkIsCutAt(i, kDearItems)) return WorkStatus();
    for (int64_t d = 0; d < rank; ++d) {
      if (at[d] < 0 || at[d] >= sizes[d]) {
        return InvalidArgument("Invalid index value at ", i, ": dimension ", d, " has value ",
                               at[d], " which is not in [0, ", sizes[d], ")");
      }
    }
    if (!rows.vector) rows.of[i] = at[0];
  }
  if (rows.count <= 0) {
    return InvalidArgument("Cannot allocate ", rows.count,
                           " batches, is the dense shape too wide?");
  }
  return rows;
}

absl::StatusOr<Rows> RaggedRows(const Tensor& splits, const Tensor& values) {
  if (splits.num_elements() < 2) {
    return InvalidArgument("Must provide at least 2 elements for the splits argument");
  }
  const auto begins = splits.span<int64_t>();
  const int64_t n = values.num_elements();
  if (begins.front() != 0) {
    return InvalidArgument("Splits must start with 0, not with ", begins.front());
  }
  if (begins.back() != n) {
    return InvalidArgument("Splits must end with the number of values, got ", begins.back(),
                           " instead of ", n);
  }
  Rows rows;
  rows.count = splits.num_elements() - 1;
  rows.of.resize(static_cast<size_t>(n));
  // Of splits that decrease, a value's row is the last that begins before it, as TensorFlow has it.
  int64_t row = 0;
  for (int64_t i = 0; i < n; ++i) {
    while (row < rows.count && i >= begins[row + 1]) {
      if (WorkIsCutAt(row)) return WorkStatus();
      ++row;
    }
    if (WorkIsCutAt(i)) return WorkStatus();
    rows.of[i] = row;
  }
  return rows;
}

enum class Form { kDense, kSparse, kRagged };

template <Form kForm>
absl::StatusOr<Rows> RowsOf(KernelContext& ctx, const Tensor& values) {
  if constexpr (kForm == Form::kDense) return DenseRows(values);
  if constexpr (kForm == Form::kSparse) return SparseRows(ctx.input(0), values, ctx.input(2));
  return RaggedRows(ctx.input(0), values);
}

template <Form kForm>
absl::StatusOr<KernelFn> MakeCount(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const CountAttrs attrs, CountAttrs::FromAttrs(init.attrs()));
  return KernelFn([attrs](KernelContext& ctx) -> absl::Status {
    const Tensor& values = ctx.input(kForm == Form::kDense ? 0 : 1);
    const Tensor& weights = ctx.input(ctx.num_inputs() - 1);
    FORMWORK_ASSIGN_OR_RETURN(const Rows rows, RowsOf<kForm>(ctx, values));
    FORMWORK_RETURN_IF_ERROR(
        CheckWeights(weights, values, kForm == Form::kDense ? "data" : "values"));
    const IndexValues wide(values);
    switch (weights.dtype()) {
      case DType::kInt32:
        return Count<int32_t>(ctx, attrs, wide, weights, rows);
      case DType::kInt64:
        return Count<int64_t>(ctx, attrs, wide, weights, rows);
      case DType::kFloat:
        return Count<float>(ctx, attrs, wide, weights, rows);
      default:
        return Count<double>(ctx, attrs, wide, weights, rows);
    }
  });
}

}  // namespace

void RegisterCountKernels(KernelRegistry& registry) {
  registry.Add("DenseCountSparseOutput", MakeCount<Form::kDense>);
  registry.Add("SparseCountSparseOutput", MakeCount<Form::kSparse>);
  registry.Add("RaggedCountSparseOutput", MakeCount<Form::kRagged>);
}

}  // namespace formwork
