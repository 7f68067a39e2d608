#pragma once

// The table of elementwise ops: for each op and dtypes a loop over a run of elements. Standalone
// kernels and fused programs are made from the same entries.

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/kernels/elementwise/elementwise_tile.h"
#include "core/ops/attr.h"
#include "core/tensor/dtype.h"

namespace formwork {

/// out[i] = f(in[0][i], in[1][i], ...) for i in [0, n). `out` may be one of `in`.
using BlockFn = void (*)(const void* const* in, void* out, int64_t n);

/// What is to be looked for in the second operand before the loop runs (CheckOperand).
enum class Refusal : uint8_t { kNone, kZero, kNegative };

struct BlockOp {
  BlockFn fn = nullptr;
  uint8_t arity = 0;
  DType in = DType::kInvalid;  ///< Of the operands (of the last ones, for a select).
  DType out = DType::kInvalid;
  Refusal refuses = Refusal::kNone;  ///< Not to be fused unless kNone.
  TileOp tile = TileOp::kNone;       ///< The same for a chain's tiles.
  /// Of a binary op: the same where in[0], or in[1], is one element for the whole run; null where
  /// there is no such loop. A constant then takes a register, not a block of the cache.
  BlockFn left_scalar = nullptr;
  BlockFn right_scalar = nullptr;
};

/// The entry for a node, in the best form that this machine runs; null where there is none.
/// Operands all have one dtype but for Select, whose first is bool, and Cast. Lives for ever.
const BlockOp* FindBlockOp(absl::string_view op, absl::Span<const DType> in, DType out);

/// What a step of the op is to be refused for, before its loop runs: looks at its second operand's
/// elements. Errors: kInvalidArgument.
absl::Status CheckOperand(const BlockOp& op, const void* elements, int64_t n);

// The parts of the table, each in a file of its own for compile time.
struct NamedBlockOp {
  absl::string_view name;
  BlockOp op;
};
absl::Span<const NamedBlockOp> ArithmeticBlocks();
absl::Span<const NamedBlockOp> CompareBlocks();
absl::Span<const NamedBlockOp> FunctionBlocks();
absl::Span<const NamedBlockOp> GradientBlocks();
absl::Span<const NamedBlockOp> SpecialBlocks();
absl::Span<const NamedBlockOp> CastBlocks();

}  // namespace formwork
