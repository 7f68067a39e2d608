// Datasets of several elements as one, and of the rows of each element.

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/data/data_cpu.h"
#include "core/kernels/data/position.h"
#include "core/kernels/data/stages.h"
#include "core/kernels/elements.h"
#include "core/kernels/strided_copy.h"
#include "core/ops/dims.h"
#include "core/ops/host_values.h"

namespace formwork {
namespace {

using Made = absl::StatusOr<std::shared_ptr<Dataset>>;
using Column = std::vector<Tensor>;  // A component of one element after the other.

// The elements that become a batch. Keeps its room from batch to batch.
class Rows {
 public:
  explicit Rows(size_t components) : columns_(components) {}

  // Up to `size` elements; fewer, or none, at the end.
  absl::StatusOr<int64_t> Take(IterationContext& ctx, Iterator& it, int64_t size) {
    for (Column& column : columns_) column.clear();
    int64_t rows = 0;
    for (; rows < size; ++rows) {
      FORMWORK_ASSIGN_OR_RETURN(const bool more, it.Next(ctx, element_));
      if (!more) break;
      if (element_.size() != columns_.size()) {
        return InvalidArgument("an element has a wrong number of components: expected=",
                               columns_.size(), " given=", element_.size());
      }
      for (size_t c = 0; c < columns_.size(); ++c) columns_[c].push_back(std::move(element_[c]));
    }
    return rows;
  }
  Column& column(size_t c) { return columns_[c]; }

 private:
  std::vector<Column> columns_;
  Element element_;
};

int64_t BatchedCardinality(int64_t cardinality, int64_t size, bool drop_remainder) {
  if (cardinality < 0) return cardinality;
  return cardinality / size + (cardinality % size == 0 || drop_remainder ? 0 : 1);
}

// The elements' dtypes with the shapes that the attrs tell of the batches.
absl::StatusOr<ElementSpec> BatchedSpec(const ElementSpec& input,
                                        const std::vector<PartialShape>& shapes) {
  if (input.dtypes.size() == shapes.size()) return ElementSpec{input.dtypes, shapes};
  return InvalidArgument("output_shapes must be as many as components: ", shapes.size(), " and ",
                         input.dtypes.size());
}

// Joins the rows' component `c`, which may be moved out.
using JoinFn =
    absl::AnyInvocable<absl::StatusOr<Tensor>(IterationContext&, Column&, size_t c) const>;

// Between two batches there is nothing but the input.
struct BatchStage {
  Iterator it;
  std::shared_ptr<const JoinFn> joined;
  int64_t size;
  bool drop_remainder;
  size_t components;
  Rows rows;

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    FORMWORK_ASSIGN_OR_RETURN(const int64_t taken, rows.Take(ctx, it, size));
    if (taken == 0 || (taken < size && drop_remainder)) return false;
    for (size_t c = 0; c < components; ++c) {
      FORMWORK_ASSIGN_OR_RETURN(Tensor batch, (*joined)(ctx, rows.column(c), c));
      FORMWORK_RETURN_IF_ERROR(WorkStatus());
      rows.column(c).clear();
      element.push_back(std::move(batch));
    }
    return true;
  }
  absl::Status Keep(Position& position) { return position.Keep(it); }
};

std::shared_ptr<Dataset> BatchedDataset(DatasetPtr input, ElementSpec spec, int64_t size,
                                        bool drop_remainder, JoinFn join) {
  const int64_t cardinality = BatchedCardinality(input->cardinality, size, drop_remainder);
  auto joined = std::make_shared<const JoinFn>(std::move(join));
  return NewDataset(
      std::move(spec), cardinality,
      [input = std::move(input), joined, size, drop_remainder](IterationContext& ctx) -> Begun {
        FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
        const size_t components = input->spec.dtypes.size();
        return NextFn::Of<BatchStage>(std::move(it), joined, size, drop_remainder, components,
                                      Rows(components));
      });
}

absl::StatusOr<int64_t> BatchSize(KernelContext& ctx) {
  FORMWORK_ASSIGN_OR_RETURN(const int64_t size, ScalarInput<int64_t>(ctx, 1, "batch_size"));
  if (size > 0) return size;
  return InvalidArgument("Batch size must be greater than zero.");
}

// --- Batches of equal shapes --------------------------------------------------------------------

// Datasets give what their specs say; what follows would read memory by another dtype.
absl::Status CheckOneDType(const Column& rows) {
  for (const Tensor& row : rows) {
    if (row.dtype() == rows[0].dtype()) continue;
    return InvalidArgument("Cannot batch tensors of different types: ", DTypeName(rows[0].dtype()),
                           " and ", DTypeName(row.dtype()));
  }
  return absl::OkStatus();
}

// Writes the elements of a string tensor, which are taken over where nobody else has them.
void MoveStrings(Tensor& from, std::string* to) {
  const size_t n = static_cast<size_t>(from.num_elements());
  if (from.unique()) {
    std::string* const texts = from.mutable_data<std::string>();
    std::move(texts, texts + n, to);
  } else {
    std::copy_n(from.data<std::string>(), n, to);
  }
}

absl::StatusOr<Tensor> StackRows(IterationContext& ctx, Column& rows, size_t c) {
  const Shape& first = rows[0].shape();
  FORMWORK_RETURN_IF_ERROR(CheckOneDType(rows));
  for (size_t i = 1; i < rows.size(); ++i) {
    if (rows[i].shape() != first) {
      return InvalidArgument("Cannot batch tensors with different shapes in component ", c,
                             ". First element had shape ", first.ToString(), " and element ", i,
                             " had shape ", rows[i].shape().ToString(), ".");
    }
  }
  const DType dtype = rows[0].dtype();
  const bool strings = dtype == DType::kString;
  if (rows.size() == 1 || (!strings && !IsPlainData(dtype))) {
    std::vector<const Tensor*> parts;
    for (const Tensor& row : rows) parts.push_back(&row);
    return StackTensors(ctx.allocator(), parts, 0);
  }
  Dims dims(first.dims().begin(), first.dims().end());
  dims.insert(dims.begin(), static_cast<int64_t>(rows.size()));
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  FORMWORK_ASSIGN_OR_RETURN(Tensor batch, Tensor::Allocate(ctx.allocator(), dtype, shape));
  const int64_t width = first.num_elements();
  const size_t bytes = rows[0].bytes();
  constexpr size_t kTaskBytes = size_t{256} << 10;
  const size_t grain = kTaskBytes / std::max<size_t>(bytes, 64);
  ParallelFor(static_cast<int64_t>(rows.size()), static_cast<int64_t>(grain),
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  Tensor& row = rows[static_cast<size_t>(i)];
                  if (strings) {
                    MoveStrings(row, batch.mutable_data<std::string>() + i * width);
                  } else {
                    std::memcpy(batch.mutable_data<char>() + static_cast<size_t>(i) * bytes,
                                row.raw(), bytes);
                  }
                }
              });
  return batch;
}

// Whether to drop the remainder stands last.
absl::StatusOr<KernelFn> MakeBatch(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ElementSpec declared, ElementSpec::FromAttrs(init.attrs()));
  return DatasetKernel(
      init, [shapes = declared.shapes](KernelContext& ctx, DatasetPtr input) -> Made {
        FORMWORK_ASSIGN_OR_RETURN(const int64_t size, BatchSize(ctx));
        bool drop_remainder = false;  // As BatchDataset, which does not ask.
        if (ctx.num_inputs() > 2) {
          FORMWORK_ASSIGN_OR_RETURN(drop_remainder,
                                    ScalarInput<bool>(ctx, ctx.num_inputs() - 1, "drop_remainder"));
        }
        return BatchDataset(std::move(input), shapes, size, drop_remainder);
      });
}

// --- Batches that are padded --------------------------------------------------------------------

struct Padding {
  PartialShape shape;  // What elements are padded to; -1: to the batch's largest.
  Tensor value;
};

absl::StatusOr<Shape> PaddedShape(const Column& rows, size_t c, const PartialShape& padded) {
  Dims dims(padded.dims().begin(), padded.dims().end());
  dims.insert(dims.begin(), static_cast<int64_t>(rows.size()));
  for (const Tensor& part : rows) {
    if (part.rank() != padded.rank()) {
      return InvalidArgument(
          "All elements in a batch must have the same rank as the padded shape for component", c,
          ": expected rank ", padded.rank(), " but got element with rank ", part.rank());
    }
    for (int d = 0; d < padded.rank(); ++d) {
      int64_t& dim = dims[static_cast<size_t>(d) + 1];
      if (padded.dim(d) < 0) {
        dim = std::max(dim, part.dim(d));
      } else if (part.dim(d) > dim) {
        return absl::DataLossError(
            absl::StrCat("Attempted to pad to a smaller size than the input element."));
      }
    }
  }
  return Shape::Make(dims);
}

// Puts `part` at the front of a place of the strides `to`.
void CopyPart(const Tensor& part, absl::Span<const int64_t> to, void* place) {
  const Dims from = RowMajorStrides(part.shape());
  CopyDims dims;
  for (int d = 0; d < part.rank(); ++d) {
    dims.push_back({part.dim(d), from[static_cast<size_t>(d)], to[static_cast<size_t>(d)]});
  }
  CopyStrided(part.dtype(), part.raw(), place, dims);
}

// Rows of vectors, the most frequent: each is copied, and what is behind it filled.
void PadVectors(Column& rows, const Tensor& value, Tensor& batch) {
  const int64_t width = batch.dim(1);
  ByElement(batch.dtype(), [&](auto tag) {
    using E = typename decltype(tag)::type;
    const E& padding = *value.data<E>();
    E* to = batch.mutable_data<E>();
    for (size_t i = 0; i < rows.size(); ++i, to += width) {
      if (WorkIsCutAt(static_cast<int64_t>(i), kDearItems)) return;
      const int64_t n = rows[i].num_elements();
      if constexpr (std::is_same_v<E, std::string>) {
        MoveStrings(rows[i], to);
        if (padding.empty()) continue;  // As they are.
      } else {
        std::copy_n(rows[i].template data<E>(), n, to);
      }
      std::fill(to + n, to + width, padding);
    }
  });
}

absl::StatusOr<Tensor> PadRows(IterationContext& ctx, Column& rows, size_t c,
                               const Padding& padding) {
  FORMWORK_RETURN_IF_ERROR(CheckOneDType(rows));
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, PaddedShape(rows, c, padding.shape));
  const DType dtype = rows[0].dtype();
  FORMWORK_ASSIGN_OR_RETURN(Tensor batch, Tensor::Allocate(ctx.allocator(), dtype, shape));
  if (batch.num_elements() == 0) return batch;
  if (batch.rank() == 2) {
    PadVectors(rows, padding.value, batch);
    return batch;
  }
  CopyStrided(dtype, padding.value.raw(), batch.mutable_raw(), {{batch.num_elements(), 0, 1}});
  const Dims strides = RowMajorStrides(shape);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].num_elements() == 0) continue;
    CopyPart(rows[i], absl::MakeConstSpan(strides).subspan(1),
             ElementAt(dtype, batch.mutable_raw(), static_cast<int64_t>(i) * strides[0]));
  }
  return batch;
}

absl::StatusOr<PartialShape> PaddedShapeOf(const Tensor& dims) {
  if (dims.rank() != 1) return InvalidArgument("All padded_shapes must be vectors");
  const absl::Span<const int64_t> values = dims.span<int64_t>();
  if (std::any_of(values.begin(), values.end(), [](int64_t dim) { return dim < -1; })) {
    return InvalidArgument("padded_shapes must not have dimensions below -1");
  }
  return PartialShape::Make(values);
}

// Inputs: the dataset, batch_size, a shape and then a value for each component, drop_remainder.
absl::StatusOr<KernelFn> MakePaddedBatch(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ElementSpec declared,
                            ElementSpec::FromAttrs(init.attrs(), "Toutput_types"));
  return DatasetKernel(
      init, [shapes = declared.shapes](KernelContext& ctx, DatasetPtr input) -> Made {
        FORMWORK_ASSIGN_OR_RETURN(const int64_t size, BatchSize(ctx));
        FORMWORK_ASSIGN_OR_RETURN(const bool drop_remainder,
                                  ScalarInput<bool>(ctx, ctx.num_inputs() - 1, "drop_remainder"));
        const int components = static_cast<int>(input->spec.dtypes.size());
        if (ctx.num_inputs() != 3 + 2 * components) {
          return InvalidArgument("Number of padded shapes (", (ctx.num_inputs() - 3) / 2,
                                 ") must match the number of components in the input dataset's "
                                 "elements (",
                                 components, ")");
        }
        std::vector<Padding> paddings;
        for (int c = 0; c < components; ++c) {
          const Tensor& value = ctx.input(2 + components + c);
          if (value.rank() != 0) return InvalidArgument("All padding values must be scalars");
          if (value.dtype() != input->spec.dtypes[static_cast<size_t>(c)]) {
            return InvalidArgument("Mismatched type between padding value ", c,
                                   " and input dataset's component ", c, ": ",
                                   DTypeName(value.dtype()), " vs. ",
                                   DTypeName(input->spec.dtypes[static_cast<size_t>(c)]));
          }
          FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, PaddedShapeOf(ctx.input(2 + c)));
          paddings.push_back({std::move(shape), value});
        }
        FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, BatchedSpec(input->spec, shapes));
        return BatchedDataset(
            std::move(input), std::move(spec), size, drop_remainder,
            [paddings = std::move(paddings)](IterationContext& ctx, Column& rows, size_t c) {
              return PadRows(ctx, rows, c, paddings[c]);
            });
      });
}

// --- Rows of elements ---------------------------------------------------------------------------

int64_t UnbatchedCardinality(const Dataset& input) {
  if (input.cardinality <= 0) return input.cardinality;
  for (const PartialShape& shape : input.spec.shapes) {
    if (shape.rank() > 0 && shape.dim(0) >= 0) {
      const int64_t rows = shape.dim(0);
      int64_t all;
      return __builtin_mul_overflow(rows, input.cardinality, &all) ? Dataset::kUnknown : all;
    }
  }
  return Dataset::kUnknown;
}

struct UnbatchStage {
  Iterator it;
  Element batch = {};
  int64_t at = 0;

  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
    while (batch.empty() || at == batch[0].dim(0)) {
      FORMWORK_ASSIGN_OR_RETURN(const bool more, it.Next(ctx, batch));
      if (!more) return false;
      at = 0;
      if (absl::Status checked = RowsOf(batch).status(); !checked.ok()) {
        batch.clear();
        return checked;
      }
    }
    for (const Tensor& component : batch) {
      FORMWORK_ASSIGN_OR_RETURN(Tensor row,
                                RowOf(ctx.allocator(), component, RowShape(component), at));
      element.push_back(std::move(row));
    }
    ++at;
    return true;
  }
  absl::Status Keep(Position& position) {
    if (batch.empty()) at = 0;  // An error has left it so.
    FORMWORK_RETURN_IF_ERROR(position.Keep(it, batch));
    FORMWORK_ASSIGN_OR_RETURN(const int64_t rows, RowsOf(batch));
    return position.KeepUpTo(static_cast<uint64_t>(rows), at);
  }
};

absl::StatusOr<KernelFn> MakeUnbatch(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ElementSpec declared, ElementSpec::FromAttrs(init.attrs()));
  return DatasetKernel(init, [shapes = declared.shapes](KernelContext&, DatasetPtr input) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, BatchedSpec(input->spec, shapes));
    const int64_t cardinality = UnbatchedCardinality(*input);
    return NewDataset(std::move(spec), cardinality, [input](IterationContext& ctx) -> Begun {
      FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
      return NextFn::Of<UnbatchStage>(std::move(it));
    });
  });
}

}  // namespace

absl::StatusOr<std::shared_ptr<Dataset>> BatchDataset(DatasetPtr input,
                                                      const std::vector<PartialShape>& shapes,
                                                      int64_t size, bool drop_remainder) {
  FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, BatchedSpec(input->spec, shapes));
  return BatchedDataset(std::move(input), std::move(spec), size, drop_remainder, StackRows);
}

void RegisterBatchDatasets(KernelRegistry& registry) {
  registry.Add("BatchDataset", MakeBatch);
  registry.Add("BatchDatasetV2", MakeBatch);
  registry.Add("ParallelBatchDataset", MakeBatch);
  registry.Add("PaddedBatchDatasetV2", MakePaddedBatch);
  registry.Add("UnbatchDataset", MakeUnbatch);
}

}  // namespace formwork
