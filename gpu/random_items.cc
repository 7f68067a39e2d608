#include "gpu/random_items.h"

#include <optional>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/kernels/random/random_cpu.h"
#include "core/kernels/random/random_fill.h"
#include "core/kernels/random/sequence_position.h"
#include "core/ops/random.h"
#include "gpu/element_access_text.h"
#include "gpu/element_source.h"
#include "gpu/item_source.h"
#include "gpu/random_functions_text.h"

namespace formwork {
namespace {

using formwork_element::PhiloxAt;
using formwork_element::PhiloxSource;
using formwork_element::RandomRange;
using From = RandomOp::From;

constexpr RandomOp kOps[] = {
    {"StatelessRandomUniformV2", "UniformDraw", From::kKeyCounter, 0, 0},
    {"StatelessRandomNormalV2", "NormalDraw", From::kKeyCounter, 0, 0},
    {"StatelessTruncatedNormalV2", "TruncatedNormalDraw", From::kKeyCounter, 0, 0},
    {"StatelessRandomUniformFullIntV2", "FullIntDraw", From::kKeyCounter, 0, 0},
    {"StatelessRandomUniformIntV2", "RangeDraw", From::kKeyCounter, 0, 4},
    {"StatelessRandomUniform", "UniformDraw", From::kSeed, 0, 0},
    {"StatelessRandomNormal", "NormalDraw", From::kSeed, 0, 0},
    {"StatelessTruncatedNormal", "TruncatedNormalDraw", From::kSeed, 0, 0},
    {"StatelessRandomUniformFullInt", "FullIntDraw", From::kSeed, 0, 0},
    {"StatelessRandomUniformInt", "RangeDraw", From::kSeed, 0, 2},
    {"RandomUniform", "UniformDraw", From::kSequence, 0, 0},
    {"RandomStandardNormal", "NormalDraw", From::kSequence, 0, 0},
    {"TruncatedNormal", "TruncatedNormalDraw", From::kSequence, 0, 0},
    {"StatefulUniform", "UniformDraw", From::kGenerator, 2, 0},
    {"StatefulStandardNormalV2", "NormalDraw", From::kGenerator, 2, 0},
    {"StatefulTruncatedNormal", "TruncatedNormalDraw", From::kGenerator, 2, 0},
    {"StatefulUniformFullInt", "FullIntDraw", From::kGenerator, 2, 0},
    {"StatefulUniformInt", "RangeDraw", From::kGenerator, 2, 3},
};

PhiloxSource Known(const Philox& philox) {
  return {nullptr, nullptr, PhiloxAt{philox.counter_lo(), philox.counter_hi(), philox.key()}};
}

// `sequence`: of From::kSequence, of which `n` elements are drawn.
absl::StatusOr<PhiloxSource> SourceOf(const RandomOp& op,
                                      const std::optional<SequencePosition>& sequence, uint64_t n,
                                      KernelContext& ctx) {
  switch (op.from) {
    case From::kKeyCounter: {
      const Tensor &key = ctx.input(1), &counter = ctx.input(2);
      FORMWORK_RETURN_IF_ERROR(
          CheckStatelessRandom(key.shape().dims(), counter.shape().dims(), ctx.input(3)));
      if (!key.on_device()) {
        const uint64_t* const words = counter.data<uint64_t>();
        return Known(Philox(words[0], words[1], key.data<uint64_t>()[0]));
      }
      return PhiloxSource{static_cast<const uint64_t*>(counter.raw()),
                          static_cast<const uint64_t*>(key.raw()), PhiloxAt{}};
    }
    case From::kSeed: {
      FORMWORK_ASSIGN_OR_RETURN(const Philox philox, PhiloxOfSeed(ctx.input(1)));
      return Known(philox);
    }
    case From::kSequence:
      return Known(sequence->Reserve(ctx, n * kReservedGroups));
    case From::kGenerator:
      FORMWORK_RETURN_IF_ERROR(CheckRandomScalar(1, ctx.input(1).shape().dims()));
      return PhiloxSource{};
  }
  return Internal(op.op, ": no such source");
}

template <typename T>
absl::StatusOr<RandomRange> RangeOf(T low, T high) {
  if (low >= high) return InvalidArgument("Need minval < maxval, got ", low, " >= ", high);
  using U = std::make_unsigned_t<T>;
  const U first = static_cast<U>(low);
  return RandomRange{first, static_cast<U>(static_cast<U>(high) - first)};
}

absl::StatusOr<RandomRange> RangeOf(const Tensor& minval, const Tensor& maxval) {
  switch (minval.dtype()) {
    case DType::kInt32:
      return RangeOf(minval.scalar<int32_t>(), maxval.scalar<int32_t>());
    case DType::kInt64:
      return RangeOf(minval.scalar<int64_t>(), maxval.scalar<int64_t>());
    case DType::kUint32:
      return RangeOf(minval.scalar<uint32_t>(), maxval.scalar<uint32_t>());
    case DType::kUint64:
      return RangeOf(minval.scalar<uint64_t>(), maxval.scalar<uint64_t>());
    default:
      return Unimplemented("random integers: dtype ", DTypeName(minval.dtype()),
                           " is not supported");
  }
}

}  // namespace

absl::Span<const RandomOp> RandomOps() { return kOps; }

const RandomOp* FindRandomOp(absl::string_view name) {
  for (const RandomOp& op : kOps) {
    if (op.op == name) return &op;
  }
  return nullptr;
}

absl::StatusOr<RandomPlanner> MakeRandomPlanner(const RandomOp& op, KernelInit& init) {
  std::optional<SequencePosition> sequence;
  if (op.from == From::kSequence) {
    FORMWORK_ASSIGN_OR_RETURN(sequence, SequencePosition::Of(init));
  }
  return RandomPlanner([&op, sequence](KernelContext& ctx) -> absl::StatusOr<RandomCall> {
    RandomCall call;
    FORMWORK_ASSIGN_OR_RETURN(call.shape, PrepareRandomShape(ctx.input(op.shape)));
    if (op.minval > 0) {
      FORMWORK_RETURN_IF_ERROR(CheckUniformBounds(ctx.input(op.minval).shape().dims(),
                                                  ctx.input(op.minval + 1).shape().dims()));
    }
    const auto n = static_cast<uint64_t>(call.shape.num_elements());
    FORMWORK_ASSIGN_OR_RETURN(call.source, SourceOf(op, sequence, n, ctx));
    // A generator's bounds are wrong even where nothing is drawn.
    if (op.minval > 0 && (n > 0 || op.from == From::kGenerator)) {
      FORMWORK_ASSIGN_OR_RETURN(call.range,
                                RangeOf(ctx.input(op.minval), ctx.input(op.minval + 1)));
    }
    return call;
  });
}

PhiloxSource SourceIn(const Tensor& state) {
  const auto* words = static_cast<const uint64_t*>(state.raw());
  return {words, words + 2, PhiloxAt{}};
}

formwork_element::SkipItem SkipItemOf(Tensor& state, uint64_t numbers) {
  return {static_cast<uint64_t*>(state.mutable_raw()), nullptr, numbers * kReservedGroups};
}

uint64_t RandomGroups(const Tensor& out) {
  const uint64_t per = DTypeSize(out.dtype()) == 8 ? 2 : 4;
  return (static_cast<uint64_t>(out.num_elements()) + per - 1) / per;
}

absl::StatusOr<std::string> RandomItemName(const RandomOp& op, DType dtype) {
  const bool integers = op.draw == "FullIntDraw" || op.draw == "RangeDraw";
  if (RandomFillFor(integers ? Distribution::kFullInt : Distribution::kUniform, dtype) == nullptr) {
    return Unimplemented(op.op, " of ", DTypeName(dtype), " on a GPU");
  }
  return absl::StrCat("RandomItem<", ElementTypeName(dtype), ", ", op.draw, ">");
}

std::string RandomSource(absl::string_view item) {
  return ItemSource(item, absl::StrCat(kElementAccessText, kRandomFunctionsText));
}

}  // namespace formwork
