// Einsum as TensorFlow defines it: one or two operands, repeated labels, ellipses that broadcast.
// Each operand becomes a dense stack of matrices (diagonals taken, lonely labels summed), their
// product is taken, and its dimensions go where the output wants them.

#include <algorithm>
#include <utility>

#include "core/base/status.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/kernel.h"
#include "core/kernels/matmul/batch_matmul.h"
#include "core/kernels/reduction/reduction.h"
#include "core/kernels/strided_copy.h"
#include "core/ops/einsum.h"

namespace formwork {

void RegisterEinsumKernel(KernelRegistry& registry);

namespace {

using Labels = std::vector<int>;

bool Contains(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

// A dense value with a label per dimension, all different.
struct Operand {
  Tensor value;
  Labels labels;

  int64_t DimOf(int label) const {
    const auto at = std::find(labels.begin(), labels.end(), label);
    return value.dim(static_cast<int>(at - labels.begin()));
  }
};

absl::StatusOr<Shape> ShapeOf(const Operand& operand, const Labels& labels) {
  Dims dims;
  for (int label : labels) dims.push_back(operand.DimOf(label));
  return Shape::Make(dims);
}

// The operand with its dimensions in the order of `labels`, which are the same ones.
absl::StatusOr<Operand> Ordered(Allocator& allocator, Operand operand, const Labels& labels) {
  if (operand.labels == labels) return operand;
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, ShapeOf(operand, labels));
  FORMWORK_ASSIGN_OR_RETURN(Tensor ordered,
                            Tensor::Allocate(allocator, operand.value.dtype(), shape));
  if (shape.num_elements() != 0) {
    const Dims from = RowMajorStrides(operand.value.shape());
    const Dims to = RowMajorStrides(shape);
    CopyDims dims;
    for (size_t d = 0; d < labels.size(); ++d) {
      const auto at = std::find(operand.labels.begin(), operand.labels.end(), labels[d]);
      dims.push_back({shape.dim(static_cast<int>(d)), from[at - operand.labels.begin()], to[d]});
    }
    CopyStrided(operand.value.dtype(), operand.value.raw(), ordered.mutable_raw(), dims);
  }
  return Operand{std::move(ordered), labels};
}

absl::Status DimensionMismatch(int64_t expected, int axis, const Shape& shape, int64_t got) {
  return InvalidArgument("Expected dimension ", expected, " at axis ", axis,
                         " of the input shaped ", shape.ToString(), " but got dimension ", got);
}

// The diagonal over labels that occur several times.
absl::StatusOr<Operand> Diagonal(Allocator& allocator, const Tensor& x, const Labels& labels) {
  Operand result;
  for (int label : labels) {
    if (!Contains(result.labels, label)) result.labels.push_back(label);
  }
  if (result.labels.size() == labels.size()) {
    result.value = x;
    return result;
  }
  const Dims strides = RowMajorStrides(x.shape());
  Dims dims;
  Dims from;
  for (int label : result.labels) {
    int64_t dim = -1;
    int64_t stride = 0;
    for (size_t d = 0; d < labels.size(); ++d) {
      if (labels[d] != label) continue;
      const int64_t length = x.dim(static_cast<int>(d));
      if (dim >= 0 && dim != length) {
        return DimensionMismatch(dim, static_cast<int>(d), x.shape(), length);
      }
      dim = length;
      stride += strides[d];
    }
    dims.push_back(dim);
    from.push_back(stride);
  }
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(dims));
  FORMWORK_ASSIGN_OR_RETURN(result.value, Tensor::Allocate(allocator, x.dtype(), shape));
  if (shape.num_elements() != 0) {
    const Dims to = RowMajorStrides(shape);
    CopyDims copy;
    for (size_t d = 0; d < dims.size(); ++d) copy.push_back({dims[d], from[d], to[d]});
    CopyStrided(x.dtype(), x.raw(), result.value.mutable_raw(), copy);
  }
  return result;
}

// The operand summed over labels that occur neither in `others` nor in `output`.
absl::StatusOr<Operand> SumLonely(Allocator& allocator, Operand operand, const Labels& others,
                                  const Labels& output) {
  ReducedMask reduced;
  Labels kept;
  for (int label : operand.labels) {
    const bool lonely = !Contains(others, label) && !Contains(output, label);
    reduced.push_back(lonely);
    if (!lonely) kept.push_back(label);
  }
  if (kept.size() == operand.labels.size()) return operand;
  const ReduceFn sum = FindReduction(Reduction::kSum, operand.value.dtype());
  if (sum == nullptr) {
    return Unimplemented("Einsum: there are no sums of ", DTypeName(operand.value.dtype()));
  }
  const ReductionGeometry geometry =
      MakeReductionGeometry(std::move(reduced), operand.value.shape().dims(), /*keep_dims=*/false);
  FORMWORK_ASSIGN_OR_RETURN(Tensor value, Reduce(allocator, sum, operand.value, geometry));
  return Operand{std::move(value), std::move(kept)};
}

// The result with the output's labels: in their order, on the diagonal where one is repeated.
absl::StatusOr<Tensor> Arranged(Allocator& allocator, Operand operand, const Labels& output) {
  Labels distinct;
  for (int label : output) {
    if (!Contains(distinct, label)) distinct.push_back(label);
  }
  FORMWORK_ASSIGN_OR_RETURN(operand, Ordered(allocator, std::move(operand), distinct));
  if (distinct.size() == output.size()) return std::move(operand.value);
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, ShapeOf(operand, output));
  const DType dtype = operand.value.dtype();
  FORMWORK_ASSIGN_OR_RETURN(Tensor spread, ZeroTensor(allocator, dtype, shape));
  if (operand.value.num_elements() == 0) return spread;
  const Dims from = RowMajorStrides(operand.value.shape());
  const Dims strides = RowMajorStrides(shape);
  CopyDims copy;
  for (size_t d = 0; d < distinct.size(); ++d) {
    int64_t to = 0;
    for (size_t o = 0; o < output.size(); ++o) {
      if (output[o] == distinct[d]) to += strides[o];
    }
    copy.push_back({operand.value.dim(static_cast<int>(d)), from[d], to});
  }
  CopyStrided(dtype, operand.value.raw(), spread.mutable_raw(), copy);
  return spread;
}

Labels Joined(const Labels& a, const Labels& b, const Labels& c) {
  Labels all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

absl::StatusOr<int64_t> ProductOfDims(const Operand& operand, const Labels& labels) {
  Dims dims;
  for (int label : labels) dims.push_back(operand.DimOf(label));
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(dims));
  return shape.num_elements();
}

// An operand as [batch..., rows, columns]: its own labels and the contracted ones, whichever order
// it has already.
struct Side {
  Tensor value;
  bool transposed;
};
absl::StatusOr<Side> AsMatrices(Allocator& allocator, Operand operand, const Labels& batch,
                                const Labels& own, const Labels& contracted, bool own_first) {
  const Labels wanted = own_first ? Joined(batch, own, contracted) : Joined(batch, contracted, own);
  const Labels other = own_first ? Joined(batch, contracted, own) : Joined(batch, own, contracted);
  const bool transposed = operand.labels == other && operand.labels != wanted;
  FORMWORK_ASSIGN_OR_RETURN(int64_t rows, ProductOfDims(operand, own));
  FORMWORK_ASSIGN_OR_RETURN(int64_t columns, ProductOfDims(operand, contracted));
  if (own_first == transposed) std::swap(rows, columns);
  Dims dims;
  for (int label : batch) dims.push_back(operand.DimOf(label));
  dims.push_back(rows);
  dims.push_back(columns);
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(dims));
  if (!transposed) {
    FORMWORK_ASSIGN_OR_RETURN(operand, Ordered(allocator, std::move(operand), wanted));
  }
  return Side{std::move(operand.value).Reshaped(shape), transposed};
}

absl::StatusOr<Tensor> TwoOperands(Allocator& allocator, Operand x, Operand y,
                                   const Labels& output) {
  for (size_t d = 0; d < y.labels.size(); ++d) {
    const int label = y.labels[d];
    if (!Contains(x.labels, label) || IsBroadcastLabel(label)) continue;
    const int64_t got = y.value.dim(static_cast<int>(d));
    if (got != x.DimOf(label)) {
      return DimensionMismatch(x.DimOf(label), static_cast<int>(d), y.value.shape(), got);
    }
  }
  // The right operand's labels end up last: let it be the one that the output ends with.
  if (!output.empty() && Contains(x.labels, output.back()) && !Contains(y.labels, output.back())) {
    std::swap(x, y);
  }
  Labels batch, contracted, x_own, y_own;
  for (int label : x.labels) {
    if (!Contains(y.labels, label)) {
      x_own.push_back(label);
    } else {
      (Contains(output, label) ? batch : contracted).push_back(label);
    }
  }
  for (int label : y.labels) {
    if (!Contains(x.labels, label)) y_own.push_back(label);
  }
  Labels result_labels = Joined(batch, x_own, y_own);
  Dims dims;
  for (int label : batch) {
    const int64_t a = x.DimOf(label);
    const int64_t b = y.DimOf(label);
    if (a != b && a != 1 && b != 1) {
      return InvalidArgument("Incompatible broadcasting dimensions: ", x.value.shape().ToString(),
                             " vs ", y.value.shape().ToString());
    }
    dims.push_back(a == 1 ? b : a);
  }
  for (int label : x_own) dims.push_back(x.DimOf(label));
  for (int label : y_own) dims.push_back(y.DimOf(label));
  FORMWORK_ASSIGN_OR_RETURN(Shape shape, Shape::Make(dims));
  FORMWORK_ASSIGN_OR_RETURN(Side left,
                            AsMatrices(allocator, std::move(x), batch, x_own, contracted, true));
  FORMWORK_ASSIGN_OR_RETURN(Side right,
                            AsMatrices(allocator, std::move(y), batch, y_own, contracted, false));
  FORMWORK_ASSIGN_OR_RETURN(
      const ProductGeometry geometry,
      PrepareProduct({.transpose_x = left.transposed, .transpose_y = right.transposed},
                     left.value.shape().dims(), right.value.shape().dims()));
  FORMWORK_ASSIGN_OR_RETURN(Tensor product,
                            Multiply(allocator, geometry, left.value, {left.transposed, false},
                                     right.value, {right.transposed, false}));
  return Arranged(allocator, {std::move(product).Reshaped(shape), std::move(result_labels)},
                  output);
}

absl::StatusOr<Tensor> Einsum(KernelContext& ctx, EinsumEquation equation) {
  std::vector<int> ranks;
  for (int i = 0; i < ctx.num_inputs(); ++i) ranks.push_back(ctx.input(i).rank());
  FORMWORK_RETURN_IF_ERROR(ExpandEllipses(equation, ranks));
  Allocator& allocator = ctx.allocator();
  std::vector<Operand> operands;
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    FORMWORK_ASSIGN_OR_RETURN(Operand operand,
                              Diagonal(allocator, ctx.input(i), equation.inputs[i]));
    const Labels others = ctx.num_inputs() == 2 ? equation.inputs[1 - i] : Labels();
    FORMWORK_ASSIGN_OR_RETURN(operand,
                              SumLonely(allocator, std::move(operand), others, equation.output));
    operands.push_back(std::move(operand));
  }
  if (operands.size() == 1) {
    return Arranged(allocator, std::move(operands[0]), equation.output);
  }
  return TwoOperands(allocator, std::move(operands[0]), std::move(operands[1]), equation.output);
}

absl::StatusOr<KernelFn> MakeEinsum(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  if (!CanMultiply(dtype)) {
    return Unimplemented("Einsum: dtype ", DTypeName(dtype), " is not supported");
  }
  FORMWORK_ASSIGN_OR_RETURN(
      EinsumEquation equation,
      EinsumEquation::FromAttrs(init.attrs(), static_cast<int>(init.input_dtypes().size())));
  return KernelFn([equation = std::move(equation)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(Tensor result, Einsum(ctx, equation));
    ctx.SetOutput(0, std::move(result));
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterEinsumKernel(KernelRegistry& registry) { registry.Add("Einsum", MakeEinsum); }

}  // namespace formwork
