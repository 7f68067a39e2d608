#pragma once

// An elementwise program whose results are reduced along trailing dimensions as they are made: what
// a group of fused nodes with reductions runs.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/kernels/elementwise/elementwise_program.h"
#include "core/kernels/kernel.h"
#include "core/kernels/reduction/reduction.h"

namespace formwork {

/// Immutable once built; shared by many calls. Results are, bit for bit, those of the program and
/// of the reductions one after the other, and do not depend on the number of threads.
class ReducedProgram {
 public:
  struct Item {
    const ReductionLoops* loops;
    ReductionAttrs attrs;
    uint16_t value;  ///< The program's value that is reduced.
    int axes;        ///< The input that holds the reduction_indices, one after the program's.
  };

  /// Fewer elements, or elements of a row, are better reduced by a step of its own, which Run does.
  static constexpr int64_t kFewElements = int64_t{1} << 16;
  static constexpr int64_t kFewInRow = 8;

  /// `outputs`: the program's values that are wanted. ctx's outputs are those, then the items'.
  ReducedProgram(std::vector<DType> input_dtypes,
                 std::vector<ElementwiseProgram::Instruction> instructions,
                 std::vector<uint16_t> outputs, std::vector<Item> items);

  /// Runs over ctx's inputs into ctx's outputs. False (and nothing done) where the shapes do not
  /// allow the program. Errors: kInvalidArgument where shapes cannot broadcast, or axes do not fit.
  absl::StatusOr<bool> Run(KernelContext& ctx) const;

 private:
  // For few elements, and those that are not reduced along the same trailing dimensions.
  absl::StatusOr<bool> RunWhole(KernelContext& ctx,
                                absl::Span<const ReductionGeometry> geometries) const;
  class Rows;

  const size_t num_wanted_;
  const std::vector<Item> items_;
  std::vector<uint16_t> outputs_;  // The program's: what is wanted, then what is only reduced.
  std::vector<size_t> output_of_;  // By item: which of them it reduces.
  const ElementwiseProgram program_;
};

}  // namespace formwork
