// Datasets of several elements as one, and of the rows of each element.

#include <algorithm>
#include <utility>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/data/data_cpu.h"
#include "core/kernels/data/dataset.h"
#include "core/kernels/elements.h"
#include "core/kernels/strided_copy.h"
#include "core/ops/host_values.h"

namespace formwork {
namespace {

using Made = absl::StatusOr<std::shared_ptr<Dataset>>;
using Rows = std::vector<Element>;

// Up to `size` elements; fewer, or none, at the end.
absl::StatusOr<Rows> TakeRows(IterationContext& ctx, Iterator& it, int64_t size) {
  Rows rows;
  while (static_cast<int64_t>(rows.size()) < size) {
    Element element;
    FORMWORK_ASSIGN_OR_RETURN(const bool more, it.Next(ctx, element));
    if (!more) break;
    rows.push_back(std::move(element));
  }
  return rows;
}

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

// Joins component `c` of the rows.
using JoinFn =
    absl::AnyInvocable<absl::StatusOr<Tensor>(IterationContext&, const Rows&, size_t c) const>;

std::shared_ptr<Dataset> BatchedDataset(DatasetPtr input, ElementSpec spec, int64_t size,
                                        bool drop_remainder, JoinFn join) {
  const int64_t cardinality = BatchedCardinality(input->cardinality, size, drop_remainder);
  auto joined = std::make_shared<const JoinFn>(std::move(join));
  return NewDataset(
      std::move(spec), cardinality,
      [input = std::move(input), joined, size, drop_remainder](IterationContext& ctx) -> Begun {
        FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
        const size_t components = input->spec.dtypes.size();
        return NextFn([it = std::move(it), joined, size, drop_remainder, components](
                          IterationContext& ctx, Element& element) mutable -> absl::StatusOr<bool> {
          FORMWORK_ASSIGN_OR_RETURN(const Rows rows, TakeRows(ctx, it, size));
          const bool partial = static_cast<int64_t>(rows.size()) < size;
          if (rows.empty() || (partial && drop_remainder)) return false;
          for (size_t c = 0; c < components; ++c) {
            FORMWORK_ASSIGN_OR_RETURN(Tensor batch, (*joined)(ctx, rows, c));
            FORMWORK_RETURN_IF_ERROR(WorkStatus());
            element.push_back(std::move(batch));
          }
          return true;
        });
      });
}

absl::StatusOr<int64_t> BatchSize(KernelContext& ctx) {
  FORMWORK_ASSIGN_OR_RETURN(const int64_t size, ScalarInput<int64_t>(ctx, 1, "batch_size"));
  if (size > 0) return size;
  return InvalidArgument("Batch size must be greater than zero.");
}

// --- Batches of equal shapes --------------------------------------------------------------------

absl::StatusOr<Tensor> StackRows(IterationContext& ctx, const Rows& rows, size_t c) {
  std::vector<const Tensor*> parts;
  parts.reserve(rows.size());
  const Shape& first = rows[0][c].shape();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i][c].shape() != first) {
      return InvalidArgument("Cannot batch tensors with different shapes in component ", c,
                             ". First element had shape ", first.ToString(), " and element ", i,
                             " had shape ", rows[i][c].shape().ToString(), ".");
    }
    parts.push_back(&rows[i][c]);
  }
  return StackTensors(ctx.allocator(), parts, 0);
}

// Whether to drop the remainder stands last.
absl::StatusOr<KernelFn> MakeBatch(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ElementSpec declared, ElementSpec::FromAttrs(init.attrs()));
  return DatasetKernel(
      MakeOnDataset([shapes = declared.shapes](KernelContext& ctx, DatasetPtr input) -> Made {
        FORMWORK_ASSIGN_OR_RETURN(const int64_t size, BatchSize(ctx));
        bool drop_remainder = false;  // As BatchDataset, which does not ask.
        if (ctx.num_inputs() > 2) {
          FORMWORK_ASSIGN_OR_RETURN(drop_remainder,
                                    ScalarInput<bool>(ctx, ctx.num_inputs() - 1, "drop_remainder"));
        }
        FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, BatchedSpec(input->spec, shapes));
        return BatchedDataset(std::move(input), std::move(spec), size, drop_remainder, StackRows);
      }));
}

// --- Batches that are padded --------------------------------------------------------------------

struct Padding {
  PartialShape shape;  // What elements are padded to; -1: to the batch's largest.
  Tensor value;
};

absl::StatusOr<Shape> PaddedShape(const Rows& rows, size_t c, const PartialShape& padded) {
  Dims dims(padded.dims().begin(), padded.dims().end());
  dims.insert(dims.begin(), static_cast<int64_t>(rows.size()));
  for (const Element& row : rows) {
    const Tensor& part = row[c];
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

absl::StatusOr<Tensor> PadRows(IterationContext& ctx, const Rows& rows, size_t c,
                               const Padding& padding) {
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, PaddedShape(rows, c, padding.shape));
  const DType dtype = rows[0][c].dtype();
  FORMWORK_ASSIGN_OR_RETURN(Tensor batch, Tensor::Allocate(ctx.allocator(), dtype, shape));
  if (batch.num_elements() == 0) return batch;
  CopyStrided(dtype, padding.value.raw(), batch.mutable_raw(), {{batch.num_elements(), 0, 1}});
  const Dims strides = RowMajorStrides(shape);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i][c].num_elements() == 0) continue;
    CopyPart(rows[i][c], absl::MakeConstSpan(strides).subspan(1),
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
  return DatasetKernel(MakeOnDataset([shapes = declared.shapes](KernelContext& ctx,
                                                                DatasetPtr input) -> Made {
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
                               " and input dataset's component ", c, ": ", DTypeName(value.dtype()),
                               " vs. ", DTypeName(input->spec.dtypes[static_cast<size_t>(c)]));
      }
      FORMWORK_ASSIGN_OR_RETURN(PartialShape shape, PaddedShapeOf(ctx.input(2 + c)));
      paddings.push_back({std::move(shape), value});
    }
    FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, BatchedSpec(input->spec, shapes));
    return BatchedDataset(
        std::move(input), std::move(spec), size, drop_remainder,
        [paddings = std::move(paddings)](IterationContext& ctx, const Rows& rows, size_t c) {
          return PadRows(ctx, rows, c, paddings[c]);
        });
  }));
}

// --- Rows of elements ---------------------------------------------------------------------------

absl::Status CheckRows(const Element& element) {
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
  return absl::OkStatus();
}

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

absl::StatusOr<KernelFn> MakeUnbatch(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const ElementSpec declared, ElementSpec::FromAttrs(init.attrs()));
  return DatasetKernel(MakeOnDataset([shapes = declared.shapes](KernelContext&,
                                                                DatasetPtr input) -> Made {
    FORMWORK_ASSIGN_OR_RETURN(ElementSpec spec, BatchedSpec(input->spec, shapes));
    const int64_t cardinality = UnbatchedCardinality(*input);
    return NewDataset(std::move(spec), cardinality, [input](IterationContext& ctx) -> Begun {
      FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
      return NextFn([it = std::move(it), batch = Element(), at = int64_t{0}](
                        IterationContext& ctx, Element& element) mutable -> absl::StatusOr<bool> {
        while (batch.empty() || at == batch[0].dim(0)) {
          FORMWORK_ASSIGN_OR_RETURN(const bool more, it.Next(ctx, batch));
          if (!more) return false;
          at = 0;
          if (absl::Status checked = CheckRows(batch); !checked.ok()) {
            batch.clear();
            return checked;
          }
        }
        for (const Tensor& component : batch) {
          FORMWORK_ASSIGN_OR_RETURN(Tensor row, RowOf(ctx.allocator(), component, at));
          element.push_back(std::move(row));
        }
        ++at;
        return true;
      });
    });
  }));
}

}  // namespace

void RegisterBatchDatasets(KernelRegistry& registry) {
  registry.Add("BatchDataset", MakeBatch);
  registry.Add("BatchDatasetV2", MakeBatch);
  registry.Add("ParallelBatchDataset", MakeBatch);
  registry.Add("PaddedBatchDatasetV2", MakePaddedBatch);
  registry.Add("UnbatchDataset", MakeUnbatch);
}

}  // namespace formwork
