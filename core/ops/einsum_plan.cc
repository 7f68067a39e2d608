#include "core/ops/einsum_plan.h"

#include <algorithm>
#include <utility>

#include "core/base/status.h"
#include "core/ops/dims.h"

namespace formwork {
namespace {

using Labels = std::vector<int>;

size_t PlaceOf(const EinsumView& view, int label) {
  return static_cast<size_t>(std::find(view.labels.begin(), view.labels.end(), label) -
                             view.labels.begin());
}
int64_t DimOf(const EinsumView& view, int label) { return view.dims[PlaceOf(view, label)]; }

EinsumView Dense(Labels labels, Dims dims) {
  Dims strides = RowMajorStrides(dims);
  return {std::move(labels), std::move(dims), std::move(strides)};
}

// The same elements, by the same labels in another order.
EinsumView Ordered(const EinsumView& view, Labels labels) {
  EinsumView ordered;
  for (int label : labels) {
    ordered.dims.push_back(DimOf(view, label));
    ordered.strides.push_back(view.strides[PlaceOf(view, label)]);
  }
  ordered.labels = std::move(labels);
  return ordered;
}

absl::Status DimensionMismatch(int64_t expected, size_t axis, absl::Span<const int64_t> dims) {
  return InvalidArgument("Expected dimension ", expected, " at axis ", axis,
                         " of the input shaped ", DimsText(dims), " but got dimension ",
                         dims[axis]);
}

// The diagonal over labels that occur several times.
absl::StatusOr<EinsumView> Diagonal(absl::Span<const int64_t> dims, const Labels& labels) {
  const Dims strides = RowMajorStrides(dims);
  EinsumView view;
  for (size_t d = 0; d < labels.size(); ++d) {
    const size_t at = PlaceOf(view, labels[d]);
    if (at == view.labels.size()) {
      view.labels.push_back(labels[d]);
      view.dims.push_back(dims[d]);
      view.strides.push_back(strides[d]);
    } else if (view.dims[at] != dims[d]) {
      return DimensionMismatch(view.dims[at], d, dims);
    } else {
      view.strides[at] += strides[d];
    }
  }
  return view;
}

absl::StatusOr<EinsumOperand> OperandOf(int input, absl::Span<const int64_t> dims,
                                        const EinsumEquation& equation) {
  EinsumOperand operand;
  operand.input = input;
  const size_t i = static_cast<size_t>(input);
  FORMWORK_ASSIGN_OR_RETURN(operand.read, Diagonal(dims, equation.inputs[i]));
  const Labels others = equation.inputs.size() == 2 ? equation.inputs[1 - i] : Labels();
  Labels left;
  Dims left_dims;
  for (int label : operand.read.labels) {
    operand.summed.push_back(!HasLabel(others, label) && !HasLabel(equation.output, label));
    if (operand.summed.back()) continue;
    left.push_back(label);
    left_dims.push_back(DimOf(operand.read, label));
  }
  operand.matrices = operand.Sums() ? Dense(std::move(left), std::move(left_dims)) : operand.read;
  return operand;
}

Labels Joined(const Labels& a, const Labels& b, const Labels& c) {
  Labels all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

absl::StatusOr<int64_t> ProductOfDims(const EinsumView& view, const Labels& labels) {
  Dims dims;
  for (int label : labels) dims.push_back(DimOf(view, label));
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make(dims));
  return shape.num_elements();
}

// The operand as [batch..., rows, columns]: its own labels and the contracted ones, whichever order
// it has already.
absl::Status MakeMatrices(EinsumOperand& operand, const Labels& batch, const Labels& own,
                          const Labels& contracted, bool own_first) {
  const Labels wanted = own_first ? Joined(batch, own, contracted) : Joined(batch, contracted, own);
  const Labels other = own_first ? Joined(batch, contracted, own) : Joined(batch, own, contracted);
  EinsumView& view = operand.matrices;
  operand.transposed = view.labels == other && view.labels != wanted;
  FORMWORK_ASSIGN_OR_RETURN(int64_t rows, ProductOfDims(view, own));
  FORMWORK_ASSIGN_OR_RETURN(int64_t columns, ProductOfDims(view, contracted));
  if (own_first == operand.transposed) std::swap(rows, columns);
  for (int label : batch) operand.dims.push_back(DimOf(view, label));
  operand.dims.push_back(rows);
  operand.dims.push_back(columns);
  if (!operand.transposed) view = Ordered(view, wanted);
  return absl::OkStatus();
}

absl::Status PlanProduct(const Labels& output, EinsumPlan& plan) {
  EinsumOperand& x = plan.operands[0];
  EinsumOperand& y = plan.operands[1];
  for (size_t d = 0; d < y.matrices.labels.size(); ++d) {
    const int label = y.matrices.labels[d];
    if (!HasLabel(x.matrices.labels, label) || IsBroadcastLabel(label)) continue;
    if (const int64_t expected = DimOf(x.matrices, label); y.matrices.dims[d] != expected) {
      return DimensionMismatch(expected, d, y.matrices.dims);
    }
  }
  // The right operand's labels end up last: let it be the one that the output ends with.
  if (!output.empty() && HasLabel(x.matrices.labels, output.back()) &&
      !HasLabel(y.matrices.labels, output.back())) {
    std::swap(x, y);
  }
  Labels batch, contracted, x_own, y_own;
  for (int label : x.matrices.labels) {
    if (!HasLabel(y.matrices.labels, label)) {
      x_own.push_back(label);
    } else {
      (HasLabel(output, label) ? batch : contracted).push_back(label);
    }
  }
  for (int label : y.matrices.labels) {
    if (!HasLabel(x.matrices.labels, label)) y_own.push_back(label);
  }
  Dims dims;
  for (int label : batch) {
    const int64_t a = DimOf(x.matrices, label), b = DimOf(y.matrices, label);
    if (a != b && a != 1 && b != 1) {
      return InvalidArgument("Incompatible broadcasting dimensions: ", DimsText(x.matrices.dims),
                             " vs ", DimsText(y.matrices.dims));
    }
    dims.push_back(a == 1 ? b : a);
  }
  for (int label : x_own) dims.push_back(DimOf(x.matrices, label));
  for (int label : y_own) dims.push_back(DimOf(y.matrices, label));
  FORMWORK_RETURN_IF_ERROR(Shape::Make(dims).status());
  plan.made = Dense(Joined(batch, x_own, y_own), std::move(dims));
  FORMWORK_RETURN_IF_ERROR(MakeMatrices(x, batch, x_own, contracted, true));
  FORMWORK_RETURN_IF_ERROR(MakeMatrices(y, batch, y_own, contracted, false));
  FORMWORK_ASSIGN_OR_RETURN(plan.product, PrepareProduct(plan.product_attrs(), x.dims, y.dims));
  return absl::OkStatus();
}

// From what is made to the output: in its order, on the diagonal where a label is repeated.
absl::Status PlanArrangement(const Labels& output, EinsumPlan& plan) {
  for (int label : output) plan.output.push_back(DimOf(plan.made, label));
  FORMWORK_RETURN_IF_ERROR(Shape::Make(plan.output).status());
  const Dims strides = RowMajorStrides(plan.output);
  Labels distinct;
  for (size_t d = 0; d < output.size(); ++d) {
    const auto known = std::find(distinct.begin(), distinct.end(), output[d]);
    if (known != distinct.end()) {
      plan.arrange.to[static_cast<size_t>(known - distinct.begin())] += strides[d];
      continue;
    }
    distinct.push_back(output[d]);
    plan.arrange.sizes.push_back(plan.output[d]);
    plan.arrange.from.push_back(plan.made.strides[PlaceOf(plan.made, output[d])]);
    plan.arrange.to.push_back(strides[d]);
  }
  plan.spreads = distinct.size() < output.size();
  plan.is_made = !plan.spreads && Ordered(plan.made, distinct).IsDense();
  return absl::OkStatus();
}

}  // namespace

bool EinsumView::IsDense() const {
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return true;
  int64_t together = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    if (dims[d] == 1) continue;
    if (strides[d] != together) return false;
    together *= dims[d];
  }
  return true;
}

bool EinsumOperand::Sums() const {
  return std::find(summed.begin(), summed.end(), true) != summed.end();
}

EinsumCopy Gathered(const EinsumView& view) {
  return {view.dims, view.strides, RowMajorStrides(view.dims)};
}

bool HasSums(const EinsumEquation& equation) {
  for (size_t i = 0; i < equation.inputs.size(); ++i) {
    for (int label : equation.inputs[i]) {
      const bool shared = equation.inputs.size() == 2 && HasLabel(equation.inputs[1 - i], label);
      // What ellipses stand for is the output's, or it is an error.
      if (label != kEllipsis && !shared && !HasLabel(equation.output, label)) return true;
    }
  }
  return false;
}

absl::StatusOr<EinsumPlan> PlanEinsum(EinsumEquation equation,
                                      absl::Span<const absl::Span<const int64_t>> inputs) {
  std::vector<int> ranks;
  for (absl::Span<const int64_t> dims : inputs) ranks.push_back(static_cast<int>(dims.size()));
  FORMWORK_RETURN_IF_ERROR(ExpandEllipses(equation, ranks));
  EinsumPlan plan;
  for (size_t i = 0; i < inputs.size(); ++i) {
    FORMWORK_ASSIGN_OR_RETURN(plan.operands.emplace_back(),
                              OperandOf(static_cast<int>(i), inputs[i], equation));
  }
  if (plan.operands.size() == 2) {
    FORMWORK_RETURN_IF_ERROR(PlanProduct(equation.output, plan));
  } else {
    plan.made = plan.operands[0].matrices;
  }
  FORMWORK_RETURN_IF_ERROR(PlanArrangement(equation.output, plan));
  return plan;
}

}  // namespace formwork
