#include "core/ops/work.h"

#include <algorithm>
#include <cmath>

namespace formwork {
namespace {

// A step that does nothing; an element read or written; a multiplication and addition in a product.
constexpr double kStepNanos = 65;
constexpr double kElementNanos = 0.3;
constexpr double kProductNanos = 0.06;

double Elements(const PartialShape& shape) {
  double elements = 1;
  for (int64_t dim : shape.dims()) elements *= static_cast<double>(std::max<int64_t>(dim, 1));
  return shape.known_rank() ? elements : 1;
}

// Of [m,k] x [k,n], with batches too: about the geometric mean of the three.
double OfProduct(absl::Span<const PartialShape> inputs, absl::Span<const PartialShape> outputs) {
  return std::sqrt(Elements(inputs[0]) * Elements(inputs[1])) * std::sqrt(Elements(outputs[0]));
}

// Of q and k: each row of the one goes with all rows of the other. The longest dimension is how
// many rows the operand with more of them has.
double OfAttention(const PartialShape& q, const PartialShape& k) {
  int64_t rows = 1;
  for (const PartialShape* shape : {&q, &k}) {
    for (int64_t dim : shape->dims()) rows = std::max(rows, dim);
  }
  return 2 * std::min(Elements(q), Elements(k)) * static_cast<double>(rows);
}

// `filter` [height, width, in, out], or of volumes, at each of the positions of `map`, which has
// `out` channels.
double OfConvolution(const PartialShape& filter, const PartialShape& map) {
  if (filter.rank() != 4 && filter.rank() != 5) return 1;
  return Elements(map) * Elements(filter) /
         static_cast<double>(std::max<int64_t>(filter.dim(filter.rank() - 1), 1));
}

// Of matrices in the last two dimensions, each row of which goes with all others.
double OfFactors(const PartialShape& matrices) {
  if (matrices.rank() < 2) return 0;
  const int64_t rows = matrices.dim(matrices.rank() - 2), cols = matrices.dim(matrices.rank() - 1);
  return Elements(matrices) * static_cast<double>(std::max<int64_t>(std::min(rows, cols), 1));
}

double Multiplications(absl::string_view op, absl::Span<const PartialShape> inputs,
                       absl::Span<const PartialShape> outputs) {
  if (op == "Cholesky" || op == "Lu" || op == "MatrixInverse" || op == "MatrixSolve" ||
      op == "MatrixTriangularSolve" || op == "MatrixDeterminant" || op == "LogMatrixDeterminant" ||
      op == "Qr") {
    return OfFactors(inputs[0]);
  }
  if (op == "Svd" || op == "SelfAdjointEigV2" || op == "Eig") return 10 * OfFactors(inputs[0]);
  if (inputs.size() < 2 || outputs.empty()) return 0;
  if (op == "MatMul" || op == "BatchMatMul" || op == "BatchMatMulV2" || op == "BatchMatMulV3" ||
      op == "Einsum") {
    return OfProduct(inputs, outputs);
  }
  if (op == "_Attention") return OfAttention(inputs[0], inputs[1]);
  if (op == "_GateMatMul") {
    double weights = 0;
    for (size_t i = inputs.size() / 2; i + 1 < inputs.size(); ++i) weights += Elements(inputs[i]);
    const bool matrix = inputs[0].known_rank() && inputs[0].rank() == 2;
    return weights * static_cast<double>(matrix ? std::max<int64_t>(inputs[0].dim(0), 1) : 1);
  }
  if (op == "Conv2D" || op == "Conv3D") return OfConvolution(inputs[1], outputs[0]);
  if (op == "DepthwiseConv2dNative") {
    if (inputs[1].rank() != 4) return 1;
    return Elements(outputs[0]) * static_cast<double>(std::max<int64_t>(inputs[1].dim(0), 1) *
                                                      std::max<int64_t>(inputs[1].dim(1), 1));
  }
  if (inputs.size() < 3) return 0;
  if (op == "Conv2DBackpropInput" || op == "Conv3DBackpropInputV2") {
    return OfConvolution(inputs[1], inputs[2]);
  }
  if (op == "Conv2DBackpropFilter" || op == "Conv3DBackpropFilterV2") {
    return OfConvolution(outputs[0], inputs[2]);
  }
  return 0;
}

}  // namespace

bool IsProductOfMatrices(absl::string_view op) {
  static constexpr absl::string_view kOps[] = {
      "BatchMatMul",
      "BatchMatMulV2",
      "BatchMatMulV3",
      "Cholesky",
      "CholeskyGrad",
      "Conv2D",
      "Conv2DBackpropFilter",
      "Conv2DBackpropInput",
      "Conv3D",
      "Conv3DBackpropFilterV2",
      "Conv3DBackpropInputV2",
      "DepthwiseConv2dNative",
      "DepthwiseConv2dNativeBackpropFilter",
      "DepthwiseConv2dNativeBackpropInput",
      "Eig",
      "Einsum",
      "LogMatrixDeterminant",
      "Lu",
      "MatMul",
      "MatrixDeterminant",
      "MatrixInverse",
      "MatrixSolve",
      "MatrixTriangularSolve",
      "Qr",
      "SelfAdjointEigV2",
      "SparseMatMul",
      "SparseTensorDenseMatMul",
      "Svd",
  };
  return std::binary_search(std::begin(kOps), std::end(kOps), op);
}

double EstimateWork(absl::string_view op, absl::Span<const PartialShape> inputs,
                    absl::Span<const PartialShape> outputs) {
  double elements = 0;
  for (const PartialShape& shape : inputs) elements += Elements(shape);
  for (const PartialShape& shape : outputs) elements += Elements(shape);
  return kStepNanos + kElementNanos * elements +
         kProductNanos * Multiplications(op, inputs, outputs);
}

}  // namespace formwork
