// Datasets of several dense elements as one sparse tensor.

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/data/data_cpu.h"
#include "core/kernels/data/position.h"
#include "core/kernels/elements.h"
#include "core/kernels/variant/tensor_part.h"

namespace formwork {
namespace {

using Made = absl::StatusOr<std::shared_ptr<Dataset>>;

absl::Status CheckRow(const Tensor& row, const PartialShape& row_shape) {
  const auto differs = [&](absl::string_view how) {
    return absl::StrCat("Input element had shape (", row.shape().ToString(), ") that is ", how,
                        " the row shape (", row_shape.ToString(), ").");
  };
  if (row.rank() != row_shape.rank()) return InvalidArgument(differs("incompatible with"));
  for (int d = 0; d < row.rank(); ++d) {
    if (row_shape.dim(d) >= 0 && row.dim(d) > row_shape.dim(d)) {
      return absl::DataLossError(differs("larger than"));
    }
  }
  return absl::OkStatus();
}

// Where each element of `row`, the `i`-th of the batch, stands in it.
int64_t* PutIndices(const Tensor& row, int64_t i, int64_t* to) {
  Dims at(static_cast<size_t>(row.rank()), 0);
  for (int64_t k = 0; k < row.num_elements(); ++k) {
    *to++ = i;
    to = std::copy(at.begin(), at.end(), to);
    for (int d = row.rank() - 1; d >= 0 && ++at[static_cast<size_t>(d)] == row.dim(d); --d) {
      at[static_cast<size_t>(d)] = 0;
    }
  }
  return to;
}

// Indices, values and shape of the batch: a vector of three variants.
absl::StatusOr<Tensor> SparseBatch(IterationContext& ctx, const std::vector<Tensor>& rows,
                                   const PartialShape& row_shape) {
  const DType dtype = rows[0].dtype();
  Dims dims(row_shape.dims().begin(), row_shape.dims().end());
  int64_t count = 0;
  for (const Tensor& row : rows) {
    if (row.dtype() != dtype) return InvalidArgument("elements are of different types");
    count += row.num_elements();  // All of them are in memory.
    for (int d = 0; d < row.rank(); ++d) {
      if (row_shape.dim(d) < 0) {
        dims[static_cast<size_t>(d)] = std::max(dims[static_cast<size_t>(d)], row.dim(d));
      }
    }
  }
  dims.insert(dims.begin(), static_cast<int64_t>(rows.size()));
  const int64_t rank = static_cast<int64_t>(dims.size());
  FORMWORK_ASSIGN_OR_RETURN(const Shape indices_shape, Shape::Make({count, rank}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor indices,
                            Tensor::Allocate(ctx.allocator(), DType::kInt64, indices_shape));
  FORMWORK_ASSIGN_OR_RETURN(Tensor values, Tensor::Allocate(ctx.allocator(), dtype, Shape{count}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor shape,
                            Tensor::Allocate(ctx.allocator(), DType::kInt64, Shape{rank}));
  std::copy(dims.begin(), dims.end(), shape.mutable_data<int64_t>());
  ByElement(dtype, [&](auto tag) {
    using E = typename decltype(tag)::type;
    int64_t* index = indices.mutable_data<int64_t>();
    E* value = values.mutable_data<E>();
    for (size_t i = 0; i < rows.size(); ++i) {
      if (WorkIsCutAt(static_cast<int64_t>(i), kDearItems)) return;
      index = PutIndices(rows[i], static_cast<int64_t>(i), index);
      value = std::copy_n(rows[i].template data<E>(), rows[i].num_elements(), value);
    }
  });
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  FORMWORK_ASSIGN_OR_RETURN(Tensor parts,
                            Tensor::Allocate(ctx.allocator(), DType::kVariant, Shape{3}));
  Variant* part = parts.mutable_data<Variant>();
  for (Tensor* tensor : {&indices, &values, &shape}) {
    FORMWORK_ASSIGN_OR_RETURN(*part++, PartOf(std::move(*tensor)));
  }
  return parts;
}

// Up to `size` elements, none at the end.
absl::StatusOr<bool> NextBatch(IterationContext& ctx, Iterator& it, int64_t size,
                               const PartialShape& row_shape, Element& element) {
  std::vector<Tensor> rows;
  while (static_cast<int64_t>(rows.size()) < size) {
    FORMWORK_ASSIGN_OR_RETURN(const bool more, it.Next(ctx, element));
    if (!more) break;
    FORMWORK_RETURN_IF_ERROR(CheckRow(element[0], row_shape));
    rows.push_back(std::move(element[0]));
  }
  element.clear();
  if (rows.empty()) return false;
  FORMWORK_ASSIGN_OR_RETURN(Tensor batch, SparseBatch(ctx, rows, row_shape));
  element.push_back(std::move(batch));
  return true;
}

struct SparseBatchStage {
  Iterator it;
  int64_t size;
  PartialShape row_shape;

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    return NextBatch(ctx, it, size, row_shape, element);
  }
  absl::Status Keep(Position& position) { return position.Keep(it); }
};

absl::StatusOr<KernelFn> MakeDenseToSparseBatch(KernelInit& init) {
  return DatasetKernel(init, [](KernelContext& ctx, DatasetPtr input) -> Made {
    if (input->spec.dtypes.size() != 1) {
      return InvalidArgument(
          "DenseToSparseBatchDataset only supports inputs with a single "
          "component.");
    }
    FORMWORK_ASSIGN_OR_RETURN(const int64_t size, ScalarInput<int64_t>(ctx, 1, "batch_size"));
    if (size <= 0) return InvalidArgument("Batch size must be greater than zero.");
    const Tensor& dims = ctx.input(2);
    if (dims.rank() != 1) return InvalidArgument("row_shape must be a vector");
    for (const int64_t dim : dims.span<int64_t>()) {
      if (dim < -1) return InvalidArgument("Dimension ", dim, " must be >= -1");
    }
    FORMWORK_ASSIGN_OR_RETURN(const PartialShape row_shape,
                              PartialShape::Make(dims.span<int64_t>()));
    int64_t cardinality = input->cardinality;
    if (cardinality >= 0) cardinality = cardinality / size + (cardinality % size == 0 ? 0 : 1);
    return NewDataset({{DType::kVariant}, {PartialShape(Shape{3})}}, cardinality,
                      [input, size, row_shape](IterationContext& ctx) -> Begun {
                        FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
                        return NextFn::Of<SparseBatchStage>(std::move(it), size, row_shape);
                      });
  });
}

}  // namespace

void RegisterSparseBatchDatasets(KernelRegistry& registry) {
  registry.Add("DenseToSparseBatchDataset", MakeDenseToSparseBatch);
}

}  // namespace formwork
