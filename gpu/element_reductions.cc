#include "gpu/element_reductions.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "core/base/status.h"
#include "gpu/element_access_text.h"
#include "gpu/element_functions_text.h"
#include "gpu/reduce_functions_text.h"

namespace formwork {
namespace {

using formwork_element::kMostReduceDims;

// $0: the arguments' pointers; $1: how many; $2: the element's type; $3: the operands' elements.
constexpr char kElements[] = R"(
struct Elements {
  static constexpr int kAtOnce = 4;
$0  OperandDims<$1> dims;

  struct Row {
    const Elements& at;
    OperandOffsets<$1> first;
    FORMWORK_ELEMENT $2 operator[](uint64_t r) const {
      const OperandOffsets<$1> offsets = at.dims.OfEntry(first, r);
      bool bad = false;
      return Compute($3bad).o0;
    }
  };
  FORMWORK_ELEMENT Row RowOf(const ReduceSizes& sizes, const ReduceRange& range) const {
    return Row{*this, dims.OfRow(range.outer * sizes.inner + range.inner)};
  }
};
)";

// $0: the name; $1: the type of what it writes; $2: the reduction; $3: whether it is the last pass.
constexpr char kKernel[] = R"(
extern "C" __global__ void __launch_bounds__(256) $0(const __grid_constant__ Elements at, $1* out,
    ReduceSizes sizes, ReduceBlock block) {
  ReduceAll<$2, true, $3>(at, out, sizes, block);
}
)";

ReduceExtent RowsOf(const Shape& elements, const ReducedMask& reduced) {
  int64_t rows = 1, entries = 1;
  for (int d = 0; d < elements.rank(); ++d) {
    (reduced[static_cast<size_t>(d)] ? entries : rows) *= elements.dim(d);
  }
  if (elements.num_elements() == 0) return {rows, 0, 1};  // Each row has no entries.
  // Where the last dimension stays, threads that are neighbours take neighbouring rows, for these
  // lie side by side in what is read.
  const DimGroups groups = GroupDims(elements.dims(), reduced);
  const int64_t inner = groups.empty() || groups.back().reduced ? 1 : groups.back().size;
  return {rows / inner, entries, inner};
}

}  // namespace

bool TakesReduction(absl::string_view op, DType dtype) {
  static constexpr absl::string_view kOps[] = {"Sum", "Prod", "Mean", "Max", "Min", "All", "Any"};
  return absl::c_linear_search(kOps, op) && FindReductionOp(op)->Takes(dtype);
}

std::string ElementReductionSourceOfProgram(const ElementProgram& program, const ReductionOp& op) {
  const size_t inputs = program.inputs.size();
  const DType dtype = program.dtype(program.outputs[0]);
  const absl::string_view type = ElementTypeName(dtype);
  const std::string reduction = ReductionType(op, dtype);
  std::string pointers, operands;
  for (size_t i = 0; i < inputs; ++i) {
    absl::StrAppend(&pointers, "  const ", ElementTypeName(program.inputs[i]), "* in", i, ";\n");
    absl::StrAppend(&operands, "at.in", i, "[offsets.of[", i, "]], ");
  }
  return absl::StrCat("using namespace formwork_element;\n", ComputeSource(program),
                      absl::Substitute(kElements, pointers, inputs, type, operands),
                      absl::Substitute(kKernel, kReduceElementsKernel, type, reduction, "true"),
                      absl::Substitute(kKernel, kReduceElementsInPartsKernel,
                                       absl::StrCat(reduction, "::Partial"), reduction, "false"));
}

std::string ElementReductionSource(const ElementProgram& program, const ReductionOp& op) {
  return absl::StrCat(kElementFunctionsText, kElementAccessText, kReduceFunctionsText,
                      ElementReductionSourceOfProgram(program, op));
}

absl::StatusOr<ElementReduction> ElementReduction::Make(absl::Span<const ElementInput> inputs,
                                                        const Shape& elements,
                                                        const ReducedMask& reduced) {
  ElementReduction made;
  made.passes = ReducePasses(RowsOf(elements, reduced));
  absl::InlinedVector<const Shape*, 16> shapes;
  for (const ElementInput& input : inputs) {
    shapes.push_back(input.shape);
    made.argument.push_back(reinterpret_cast<uintptr_t>(input.elements));
  }
  absl::InlinedVector<int, 8> of_entries, of_rows;
  for (int d = elements.rank() - 1; d >= 0; --d) {
    (reduced[static_cast<size_t>(d)] ? of_entries : of_rows).push_back(d);
  }
  const ElementStrides entries = StridesOf(shapes, elements, of_entries);
  const ElementStrides rows = StridesOf(shapes, elements, of_rows);
  const size_t all = entries.dims.size() + rows.dims.size();
  if (all > kMostReduceDims) {
    return Unimplemented("a reduction of more than ", kMostReduceDims, " dimensions on a GPU");
  }
  // As OperandDims has it.
  made.argument.push_back(entries.dims.size() | static_cast<uint64_t>(all) << 32);
  const auto add = [&](absl::Span<const uint64_t> first, absl::Span<const uint64_t> last) {
    made.argument.insert(made.argument.end(), first.begin(), first.end());
    made.argument.insert(made.argument.end(), last.begin(), last.end());
    made.argument.resize(made.argument.size() + kMostReduceDims - all);
  };
  add(entries.dims, rows.dims);
  for (size_t i = 0; i < inputs.size(); ++i) add(entries.of[i], rows.of[i]);
  return made;
}

}  // namespace formwork
