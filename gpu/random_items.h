#pragma once

// Random ops on a GPU: from where in which sequence a call draws, and what a group of numbers
// becomes (random_functions.h). Needs no CUDA itself.

#include <cstdint>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/kernels/kernel.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"
#include "gpu/random_functions.h"

namespace formwork {

struct RandomOp {
  /// What says where its numbers begin.
  enum class From {
    kKeyCounter,  ///< Inputs 1 and 2, both on the GPU or both in host memory.
    kSeed,        ///< Input 1, two integers in host memory.
    kSequence,    ///< Attrs; each call goes on where the last one stopped, which the host knows.
    kGenerator,   ///< A variable, whose handle is input 0, and which goes on by what is drawn.
  };

  absl::string_view op;
  absl::string_view draw;  ///< Of random_functions.h.
  From from;
  int shape;   ///< The input that lists the output's dimensions.
  int minval;  ///< The one that numbers begin at, before the one that they end before; 0: none.
};

/// All of them.
absl::Span<const RandomOp> RandomOps();
/// Null where there is none.
const RandomOp* FindRandomOp(absl::string_view name);

/// What a call draws.
struct RandomCall {
  Shape shape;
  formwork_element::PhiloxSource source{};  ///< Of a generator to be set by its value (SourceIn).
  formwork_element::RandomRange range{};
};
/// By the values of inputs in host memory. Errors: the op's.
using RandomPlanner = absl::AnyInvocable<absl::StatusOr<RandomCall>(KernelContext&) const>;
/// Of a node of one of the ops.
absl::StatusOr<RandomPlanner> MakeRandomPlanner(const RandomOp& op, KernelInit& init);

/// Numbers begin where the value of a generator's variable says.
formwork_element::PhiloxSource SourceIn(const Tensor& state);
/// The value moves on by what `numbers` numbers set aside.
formwork_element::SkipItem SkipItemOf(Tensor& state, uint64_t numbers);

/// The groups of elements of a dtype that an output is made of: an item each.
uint64_t RandomGroups(const Tensor& out);
template <typename E, typename Draw>
formwork_element::RandomItem<E, Draw> RandomItemOf(const RandomCall& call, Tensor& out) {
  return {call.source, call.range, static_cast<E*>(out.mutable_raw()),
          static_cast<uint64_t>(out.num_elements())};
}

/// The item of the op for outputs of a dtype. Errors: kUnimplemented for dtypes that it has not.
absl::StatusOr<std::string> RandomItemName(const RandomOp& op, DType dtype);
/// The text of a kernel of such an item or of SkipItem, as ItemSource's (item_source.h).
std::string RandomSource(absl::string_view item);

}  // namespace formwork
