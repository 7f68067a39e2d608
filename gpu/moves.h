#pragma once

// Ops that move elements and compute nothing, as copies between strided views. Needs no CUDA
// itself.

#include <cstdint>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/kernels/kernel.h"
#include "core/kernels/strided_copy.h"
#include "gpu/item_functions.h"

namespace formwork {

/// A copy of elements of an input to an output, from and to the ones given.
struct Move {
  int input = 0;
  int output = 0;
  int64_t from = 0;
  int64_t to = 0;
  CopyDims dims;
};

struct MovePlan {
  enum class Fill { kNone, kZeros, kInput, kValue };

  std::vector<Shape> outputs;
  Fill fill = Fill::kNone;                 ///< Of output 0, before anything is copied there:
  int fill_input = 0;                      ///< of kInput, with the only element of this;
  formwork_element::Bytes16 fill_value{};  ///< of kValue, with the element that begins with this.
  std::vector<Move> moves;
};

/// What a call does, by its shapes and by the values of inputs in host memory (sizes, axes).
/// Errors: those of the op's shapes.
using MovePlanner = absl::AnyInvocable<absl::StatusOr<MovePlan>(KernelContext&) const>;

/// The ops.
std::vector<absl::string_view> MovingOps();
/// Of a node of one of them. Errors: kUnimplemented for dtypes that are not plain data.
absl::StatusOr<MovePlanner> MakeMovePlanner(KernelInit& init);

// Those of depth_moves.cc, which the list of ops names.
absl::StatusOr<MovePlanner> PlanDepthToSpace(KernelInit& init);
absl::StatusOr<MovePlanner> PlanDiag(KernelInit& init);
absl::StatusOr<MovePlanner> PlanDiagPart(KernelInit& init);
absl::StatusOr<MovePlanner> PlanSpaceToDepth(KernelInit& init);

/// Calls `call` with a value of the unit's type.
template <typename Call>
auto WithUnit(size_t bytes, Call call) {
  switch (bytes) {
    case 1:
      return call(uint8_t());
    case 2:
      return call(uint16_t());
    case 4:
      return call(uint32_t());
    case 8:
      return call(uint64_t());
    default:
      return call(formwork_element::Bytes16());
  }
}

/// The widest unit that slices of `bytes` are made of.
inline size_t UnitOf(size_t bytes) {
  size_t unit = 16;
  while (bytes % unit != 0) unit /= 2;
  return unit;
}

/// A copy as a kernel does it: of units, which are several elements where those lie side by side.
struct UnitCopy {
  size_t unit;                                     ///< 1, 2, 4, 8 or 16 bytes.
  uint64_t units;                                  ///< 0: nothing is to be copied.
  int64_t from, to;                                ///< In units.
  formwork_element::CopyItem<uint8_t> dimensions;  ///< But for the pointers.
};

/// Neighbouring dimensions that go on alike are one; `bytes` of an element, in memory that begins
/// at a multiple of 16 bytes. Errors: kUnimplemented if more than kMostCopyDims dimensions are
/// left.
absl::StatusOr<UnitCopy> UnitCopyOf(const Move& move, size_t bytes);

/// The item of `copy` for its unit E.
template <typename E>
formwork_element::CopyItem<E> CopyItemOf(const UnitCopy& copy, const void* from, void* to) {
  formwork_element::CopyItem<E> item{};
  item.from = static_cast<const E*>(from) + copy.from;
  item.to = static_cast<E*>(to) + copy.to;
  item.rank = copy.dimensions.rank;
  for (int d = 0; d < item.rank; ++d) {
    item.sizes[d] = copy.dimensions.sizes[d];
    item.from_strides[d] = copy.dimensions.from_strides[d];
    item.to_strides[d] = copy.dimensions.to_strides[d];
  }
  return item;
}

}  // namespace formwork
