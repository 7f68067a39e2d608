#pragma once

// Machine code for chains of elementwise instructions that follow each other, made at run time: a
// vector of each operand is read once, goes through all instructions in registers, and only what is
// wanted outside is stored. Chains by tiles (elementwise_tile.h) jump once a step and tile, and
// what an instruction reads that is not the chain's last result lies in memory.

#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "core/kernels/elementwise/elementwise_tile.h"
#include "core/kernels/isa.h"

namespace formwork {

/// Immutable; shared by threads. Its memory goes with it.
class CompiledChains {
 public:
  /// value = op(operands); unary ops have the first alone.
  struct Instruction {
    TileOp op = TileOp::kNone;
    bool is_unary = false;
    bool is_stored = false;  ///< Whether `value` is wanted in memory.
    uint16_t operands[2] = {0, 0};
    uint16_t value = 0;
  };

  /// Code for elements of `dtype` (kFloat or kDouble), each instruction after those that it reads.
  /// What none of them makes is read from memory; `is_splat`, by value: as one element, repeated.
  /// Takes some tens of microseconds. Null where the level has no such code, where there is more
  /// than registers hold, and where the system refuses executable memory.
  static std::unique_ptr<const CompiledChains> Make(DType dtype,
                                                    absl::Span<const Instruction> instructions,
                                                    absl::Span<const bool> is_splat,
                                                    Isa isa = HostIsa());

  CompiledChains(const CompiledChains&) = delete;
  CompiledChains& operator=(const CompiledChains&) = delete;
  ~CompiledChains();

  /// Makes n elements, neither reading nor writing others. values[v]: the first element of each
  /// value that is read or stored; of a splat, kTileScalarBytes of it. What is stored may be where
  /// something is read that no later instruction reads.
  void Run(const void* const* values, int64_t n) const { code_(values, n); }

 private:
  using Code = void (*)(const void* const* values, int64_t n);
  explicit CompiledChains(Code code) : code_(code) {}

  const Code code_;
};

}  // namespace formwork
