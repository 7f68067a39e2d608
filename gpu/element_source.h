#pragma once

// The text of CUDA kernels for elementwise programs, which a GPU's device compiles when a plan
// wants them. Needs no CUDA itself.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/ops/element_group.h"
#include "core/tensor/dtype.h"

namespace formwork {

/// The type of elements in kernels' texts; empty where they have none.
absl::string_view ElementTypeName(DType dtype);

/// An op of element_ops.inc.
struct ElementOp {
  enum class DTypes { kFloats, kNumbers, kDivided, kIntegers, kBools };
  enum class Result { kSame, kBool };

  absl::string_view name;
  int arity;
  DTypes dtypes;
  Result result;
  absl::string_view expression;  ///< C++, of a, b and c, of the type T that computes.

  /// Whether operands, all of this dtype, can be computed.
  bool Takes(DType dtype) const;
  /// Whether it fails where an element of b is 0.
  bool MayFail(DType dtype) const;
  DType ResultOf(DType dtype) const { return result == Result::kBool ? DType::kBool : dtype; }
};

/// All of them.
absl::Span<const ElementOp> ElementOps();
/// Null where there is none.
const ElementOp* FindElementOp(absl::string_view name);

/// An op of which the last operand is a number that is known.
struct BoundElementOp {
  std::string name, expression;

  /// Lives as long as this.
  ElementOp op;

  /// `value` is finite.
  BoundElementOp(std::string name, const ElementOp& of, double value);
  BoundElementOp(const BoundElementOp&) = delete;
};

/// What one kernel computes: a value after the other, each an element of its own. Every value is
/// rounded to its dtype, as where each op is a kernel.
struct ElementProgram {
  struct Instruction {
    /// Null: the only operand is cast, or of three operands the first one chooses.
    const ElementOp* op = nullptr;
    absl::InlinedVector<uint16_t, 3> operands = {};
    DType dtype = DType::kInvalid;  ///< Of the result.
  };

  /// Of operands that are all inputs.
  static ElementProgram Of(const ElementOp& op, DType dtype);
  static ElementProgram OfCast(DType from, DType to);
  /// One that TakesInstruction says can be.
  static ElementProgram Of(const ElementGroup& group);

  std::vector<DType> inputs;
  std::vector<Instruction> instructions;  ///< Values are numbered as an ElementGroup's.
  std::vector<uint16_t> outputs;
  /// By output: whether it keeps another value where an earlier step has failed.
  std::vector<bool> keeps;

  DType dtype(uint16_t value) const {
    return value < inputs.size() ? inputs[value] : instructions[value - inputs.size()].dtype;
  }
  bool MayFail() const;
  bool Keeps() const;
  /// The elements that one thread computes at a time: 16 bytes of the largest type.
  int ElementsPerThread() const;
};

/// Whether there is such an instruction.
bool TakesInstruction(absl::string_view op, absl::Span<const DType> operands, DType result);

/// Dimensions that a kernel takes apart (element_launch.h).
inline constexpr int kMostElementDims = 8;

/// The text of the struct `Made`, whose members o0, o1 and so on are the outputs, and of the
/// function `Compute`, which makes one of an element of each input and, where an op MayFail, tells
/// the last argument, a bool&.
std::string ComputeSource(const ElementProgram& program);

/// The text of two kernels, `elements` and, for shapes that do not go by ElementsPerThread,
/// `elements_one`. Their parameters: what ElementLaunch makes; `FailureWord* word, uint64 step`,
/// which are looked at where the program MayFail or Keeps.
std::string ElementSource(const ElementProgram& program);
/// The part of it that is the program's own, behind the texts of functions. Compiled for the host
/// by tests.
std::string ElementSourceOfProgram(const ElementProgram& program);

inline constexpr char kElementsKernel[] = "elements";
inline constexpr char kElementsOneKernel[] = "elements_one";

}  // namespace formwork
