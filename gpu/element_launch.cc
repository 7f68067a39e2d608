#include "gpu/element_launch.h"

#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "core/base/status.h"

namespace formwork {
namespace {

constexpr size_t kMost = kMostElementDims;

// Whether an operand goes on in a dimension of the output; kept for all operands of a dimension.
using GoesOn = absl::InlinedVector<bool, 16>;

bool BroadcastsTo(const Shape& operand, const Shape& shape) {
  if (operand.rank() > shape.rank()) return false;
  for (int d = 1; d <= operand.rank(); ++d) {
    const int64_t dim = operand.dim(operand.rank() - d);
    if (dim != 1 && dim != shape.dim(shape.rank() - d)) return false;
  }
  return true;
}

// The output's dimensions, the last one first, and by how many elements each operand goes on in
// them: 0 where it is repeated. Neighbouring dimensions in which all go on alike are one.
struct Strides {
  uint32_t rank = 0;
  uint32_t dims[kMost] = {};
  absl::InlinedVector<std::array<uint32_t, kMost>, 16> of;
};

absl::StatusOr<Strides> StridesOf(absl::Span<const Shape* const> operands, const Shape& shape) {
  Strides strides;
  strides.of.resize(operands.size(), {});
  absl::InlinedVector<uint64_t, 16> reached(operands.size(), 1);  // Elements, so far.
  GoesOn before(operands.size()), here(operands.size());
  const bool fits = shape.num_elements() <= std::numeric_limits<int32_t>::max();
  for (int d = 0; d < shape.rank(); ++d) {
    const int64_t dim = shape.dim(shape.rank() - 1 - d);
    if (dim == 1) continue;
    for (size_t k = 0; k < operands.size(); ++k) {
      const Shape& operand = *operands[k];
      here[k] = d < operand.rank() && operand.dim(operand.rank() - 1 - d) != 1;
    }
    if (strides.rank > 0 && here == before) {
      strides.dims[strides.rank - 1] *= static_cast<uint32_t>(dim);
    } else {
      if (strides.rank == kMost) {
        return Unimplemented("a broadcast of more than ", kMost, " dimensions on a GPU");
      }
      strides.dims[strides.rank] = static_cast<uint32_t>(dim);
      for (size_t k = 0; k < operands.size(); ++k) {
        strides.of[k][strides.rank] = here[k] ? static_cast<uint32_t>(reached[k]) : 0;
      }
      ++strides.rank;
    }
    for (size_t k = 0; k < operands.size(); ++k) {
      if (here[k]) reached[k] *= static_cast<uint64_t>(dim);
    }
    std::swap(before, here);
  }
  if (strides.rank > 1 && !fits) {
    return Unimplemented("a broadcast to ", shape.num_elements(), " elements on a GPU");
  }
  if (strides.rank == 0) strides.rank = strides.dims[0] = 1;
  return strides;
}

}  // namespace

absl::StatusOr<ElementLaunch> ElementLaunch::Make(const ElementProgram& program,
                                                  absl::Span<const ElementInput> inputs,
                                                  absl::Span<const ElementOutput> outputs,
                                                  const Shape& shape) {
  static const Shape* const one = new Shape;
  absl::InlinedVector<const Shape*, 16> shapes;
  ElementLaunch launch;
  // What does not broadcast is needed by outputs of other shapes alone.
  for (const ElementInput& input : inputs) {
    const bool needed = BroadcastsTo(*input.shape, shape);
    shapes.push_back(needed ? input.shape : one);
    launch.argument.push_back(reinterpret_cast<uintptr_t>(needed ? input.elements : nullptr));
  }
  FORMWORK_ASSIGN_OR_RETURN(Strides strides, StridesOf(shapes, shape));
  for (const ElementOutput& output : outputs) {
    launch.argument.push_back(reinterpret_cast<uintptr_t>(output.elements));
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (!program.keeps[k]) continue;
    launch.argument.push_back(reinterpret_cast<uintptr_t>(outputs[k].before));
  }
  const uint64_t n = static_cast<uint64_t>(shape.num_elements());
  const auto width = static_cast<uint32_t>(program.ElementsPerThread());
  launch.wide = strides.rank == 1 || strides.dims[0] % width == 0;
  if (launch.wide) {  // In groups, of which one dimension may leave a rest.
    strides.dims[0] /= width;
    for (std::array<uint32_t, kMost>& of : strides.of) of[0] *= width;
  }
  launch.threads = launch.wide ? n / width + (n % width != 0 ? 1 : 0) : n;
  launch.argument.push_back(n);
  absl::InlinedVector<uint32_t, 64> numbers = {strides.rank};
  numbers.insert(numbers.end(), strides.dims, strides.dims + kMost);
  for (const std::array<uint32_t, kMost>& of : strides.of) {
    numbers.insert(numbers.end(), of.begin(), of.end());
  }
  const size_t behind = launch.argument.size();
  launch.argument.resize(behind + (numbers.size() + 1) / 2);
  std::memcpy(&launch.argument[behind], numbers.data(), numbers.size() * sizeof(uint32_t));
  return launch;
}

}  // namespace formwork
