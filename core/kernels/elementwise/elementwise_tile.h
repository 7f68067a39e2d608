#pragma once

// Chains of elementwise instructions whose values stay in registers: a tile (some vectors of
// elements) is loaded once, goes through all steps of the chain, and is stored. A chain of n cheap
// ops thus costs n vector instructions per vector, where loops over blocks would also load and
// store n times.

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "core/tensor/dtype.h"

namespace formwork {

/// The ops that a chain may have. kNone: not one of them.
enum class TileOp : uint8_t {
  kNone,
  // Binary.
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMaximum,
  kMinimum,
  kSquaredDifference,
  // Unary.
  kNeg,
  kAbs,
  kSquare,
  kReciprocal,
  kSqrt,
  kRsqrt,
  kRelu,
  kRelu6,
};

/// The one that computes what the table's entry of that name does for elements and results of
/// `dtype`, to the bit.
TileOp FindTileOp(absl::string_view name, DType dtype);

/// What a step does with the tile in registers ("a") and what its pointer names ("b").
enum class TileForm : uint8_t {
  kEnd,         ///< The chain's last step.
  kStore,       ///< b = a
  kUnary,       ///< a = op(a)
  kLoad,        ///< a = b
  kBlock,       ///< a = op(a, b)
  kBlockFirst,  ///< a = op(b, a)
  kLoadScalar,  ///< The same three where all of b is one element.
  kScalar,
  kScalarFirst,
};
/// Of kLoad, kBlock or kBlockFirst.
constexpr TileForm ScalarForm(TileForm form) {
  return static_cast<TileForm>(static_cast<int>(form) + 3);
}

/// What the pointer of a step with a scalar names: the element, repeated.
inline constexpr size_t kTileScalarBytes = 64;

struct TileStep {
  uint8_t code = 0;      ///< TileCode's.
  void* data = nullptr;  ///< Written by kStore alone.
};

constexpr uint8_t TileCode(TileForm form, TileOp op = TileOp::kNone) {
  return static_cast<uint8_t>(static_cast<int>(op) * 16 + static_cast<int>(form));
}
constexpr bool TileReadsScalar(uint8_t code) {
  return code % 16 >= static_cast<int>(TileForm::kLoadScalar);
}

/// Runs steps up to kEnd over elements [0, n), and over those after them up to the end of a tile:
/// blocks have to have room, and a tile goes into kBlockElements without a rest. What a step stores
/// may be what it or an earlier one has read, and later ones may read it.
using TileFn = void (*)(const TileStep* steps, int64_t n);

/// The loop for this machine; null for dtypes that have none.
TileFn FindTileLoop(DType dtype);

}  // namespace formwork
