#include "gpu/element_launch.h"

#include <cstring>
#include <limits>

#include "core/base/status.h"

namespace formwork {
namespace {

constexpr size_t kMost = kMostElementDims;

// By how many elements the operand goes on in a dimension of its own; 0 where it has none such.
uint64_t StrideOf(const Shape& operand, int d) {
  if (d < 0 || operand.dim(d) == 1) return 0;
  uint64_t stride = 1;
  for (int behind = d + 1; behind < operand.rank(); ++behind) {
    stride *= static_cast<uint64_t>(operand.dim(behind));
  }
  return stride;
}

bool BroadcastsTo(const Shape& operand, const Shape& shape) {
  if (operand.rank() > shape.rank()) return false;
  for (int d = 1; d <= operand.rank(); ++d) {
    const int64_t dim = operand.dim(operand.rank() - d);
    if (dim != 1 && dim != shape.dim(shape.rank() - d)) return false;
  }
  return true;
}

}  // namespace

ElementStrides StridesOf(absl::Span<const Shape* const> operands, const Shape& shape,
                         absl::Span<const int> order) {
  ElementStrides strides;
  strides.of.resize(operands.size());
  absl::InlinedVector<uint64_t, 16> here(operands.size());
  for (const int d : order) {
    if (shape.dim(d) == 1) continue;
    const auto dim = static_cast<uint64_t>(shape.dim(d));
    bool goes_on = !strides.dims.empty();  // As the dimension before does, for all operands.
    for (size_t k = 0; k < operands.size(); ++k) {
      here[k] = StrideOf(*operands[k], d - shape.rank() + operands[k]->rank());
      goes_on = goes_on && here[k] == strides.of[k].back() * strides.dims.back();
    }
    if (goes_on) {
      strides.dims.back() *= dim;
      continue;
    }
    strides.dims.push_back(dim);
    for (size_t k = 0; k < operands.size(); ++k) strides.of[k].push_back(here[k]);
  }
  return strides;
}

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
  absl::InlinedVector<int, 8> order;
  for (int d = shape.rank() - 1; d >= 0; --d) order.push_back(d);
  ElementStrides strides = StridesOf(shapes, shape, order);
  if (strides.dims.empty()) {
    strides.dims.push_back(1);
    for (auto& of : strides.of) of.push_back(0);
  }
  if (strides.dims.size() > kMost) {
    return Unimplemented("a broadcast of more than ", kMost, " dimensions on a GPU");
  }
  const bool fits = shape.num_elements() <= std::numeric_limits<int32_t>::max();
  if (strides.dims.size() > 1 && !fits) {
    return Unimplemented("a broadcast to ", shape.num_elements(), " elements on a GPU");
  }
  for (const ElementOutput& output : outputs) {
    launch.argument.push_back(reinterpret_cast<uintptr_t>(output.elements));
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (!program.keeps[k]) continue;
    launch.argument.push_back(reinterpret_cast<uintptr_t>(outputs[k].before));
  }
  const uint64_t n = static_cast<uint64_t>(shape.num_elements());
  const auto width = static_cast<uint32_t>(program.ElementsPerThread());
  launch.wide = strides.dims.size() == 1 || strides.dims[0] % width == 0;
  if (launch.wide) {  // In groups, of which one dimension may leave a rest.
    strides.dims[0] /= width;
    for (auto& of : strides.of) of[0] *= width;
  }
  launch.threads = launch.wide ? n / width + (n % width != 0 ? 1 : 0) : n;
  launch.argument.push_back(n);
  absl::InlinedVector<uint32_t, 64> numbers = {static_cast<uint32_t>(strides.dims.size())};
  const auto add = [&](absl::Span<const uint64_t> values) {
    for (size_t d = 0; d < kMost; ++d) {
      numbers.push_back(d < values.size() ? static_cast<uint32_t>(values[d]) : 0);
    }
  };
  add(strides.dims);
  for (const auto& of : strides.of) add(of);
  const size_t behind = launch.argument.size();
  launch.argument.resize(behind + (numbers.size() + 1) / 2);
  std::memcpy(&launch.argument[behind], numbers.data(), numbers.size() * sizeof(uint32_t));
  return launch;
}

}  // namespace formwork
