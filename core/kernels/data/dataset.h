#pragma once

// Datasets: what gives elements, and the iterators that ask for them.
//
//   Dataset    a variant, never changed: how to begin, what elements are, how many there are
//   Iterator   a position in one
//   Element    its components
//
// A kernel makes a dataset of its inputs and says how an iterator begins. That is a closure, and
// what it returns is a stage, which has the iterator's state, gives one element after the other,
// and says of what it has to be stored where it is (position.h):
//
//   struct Taken {
//     Iterator it;
//     int64_t left;
//     absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) {
//       return left-- > 0 ? it.Next(ctx, element) : false;
//     }
//     absl::Status Keep(Position& position) { return position.Keep(it, left); }
//   };
//
//   return NewDataset(input->spec, cardinality, [=](IterationContext& ctx) -> Begun {
//     FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
//     return NextFn::Of<Taken>(std::move(it), left);
//   });
//
// Elements are made in TensorFlow's order, within the call that asks: its memory, its resources,
// its deadline. Iterators have no thread of their own: elements are made on the one that asks for
// them, or ahead, on a compute thread (prefetch_cpu.cc), which has stopped before the kernel that
// asks ends.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/kernels/kernel.h"
#include "core/ops/data.h"
#include "core/resource/used_resources.h"
#include "core/tensor/tensor.h"

namespace formwork {

using Element = std::vector<Tensor>;

/// Who asks for elements: a kernel, while it runs. Used by one thread.
class IterationContext {
 public:
  explicit IterationContext(CallScope& call) : call(call) {}
  /// All iterators that it asks end before it does: what they have made ahead, or have been stopped
  /// at, nobody misses.
  static IterationContext OfWhatEnds(CallScope& call) {
    IterationContext ctx(call);
    ctx.may_go_ahead_ = true;
    return ctx;
  }
  bool may_go_ahead() const { return may_go_ahead_; }
  Allocator& allocator() const { return call.allocator(); }
  /// Once for each element that is made: the status to end with, as in a loop's iteration.
  absl::Status Look() {
    StopFlag& stop = call.stop();
    if (!stop.requested() && (++looks_ % kLooksBetweenPolls != 0 || !stop.Poll())) {
      return absl::OkStatus();
    }
    return stop.status();
  }

  CallScope& call;

 private:
  static constexpr uint32_t kLooksBetweenPolls = 16;
  uint32_t looks_ = 0;
  bool may_go_ahead_ = false;
};

class Position;

/// Makes elements: a stage of an iterator. It is a closure, or an object of a class that has
///   absl::StatusOr<bool> Next(IterationContext&, Element&);
/// and, where it can be stored, Keep (position.h).
class NextFn {
 public:
  template <typename Closure,
            typename = std::enable_if_t<!std::is_same_v<Closure, NextFn> &&
                                        std::is_invocable_v<Closure&, IterationContext&, Element&>>>
  NextFn(Closure closure)  // NOLINT: what a closure returns.
      : stage_(std::make_unique<Held<Closure>>(std::move(closure))) {}
  template <typename Stage, typename... Args>
  static NextFn Of(Args&&... args) {
    return NextFn(std::unique_ptr<AnyStage>(new Held<Stage>(std::forward<Args>(args)...)));
  }

  /// Makes the next element; false: there is none, and it is not asked again.
  absl::StatusOr<bool> operator()(IterationContext& ctx, Element& element) {
    return stage_->Next(ctx, element);
  }
  /// Errors: those of Position::Keep; kUnimplemented of a stage that cannot be stored.
  absl::Status Keep(Position& position) { return stage_->Keep(position); }

 private:
  struct AnyStage {
    virtual ~AnyStage() = default;
    virtual absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) = 0;
    virtual absl::Status Keep(Position& position) = 0;
  };
  template <typename Stage>
  struct Held final : AnyStage {
    template <typename... Args>
    explicit Held(Args&&... args) : stage{std::forward<Args>(args)...} {}
    absl::StatusOr<bool> Next(IterationContext& ctx, Element& element) override {
      if constexpr (requires { stage.Next(ctx, element); }) {
        return stage.Next(ctx, element);
      } else {
        return stage(ctx, element);
      }
    }
    absl::Status Keep(Position& position) override {
      if constexpr (requires { stage.Keep(position); }) {
        return stage.Keep(position);
      } else {
        return absl::UnimplementedError("it has no position that can be stored");
      }
    }
    Stage stage;
  };
  explicit NextFn(std::unique_ptr<AnyStage> stage) : stage_(std::move(stage)) {}

  std::unique_ptr<AnyStage> stage_;
};
using Begun = absl::StatusOr<NextFn>;
using BeginFn = absl::AnyInvocable<Begun(IterationContext&) const>;

/// Used by one thread at a time. After an error it may be asked on.
class Iterator {
 public:
  Iterator() = default;  ///< At its end.
  /// `op`: that of its dataset, for errors; outlives it.
  Iterator(NextFn next, absl::string_view op) : next_(std::move(next)), op_(op) {}

  /// The next element; false at the end, where `element` is left empty.
  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element);
  bool at_end() const { return !next_.has_value(); }
  /// Where it is; read by one that has just begun. Errors: NextFn's, with the dataset's op.
  absl::Status Keep(Position& position);

 private:
  std::optional<NextFn> next_;  // None at the end.
  absl::string_view op_;
};

/// The node that has made a dataset, but for its inputs.
struct DatasetNode {
  absl::string_view op;
  AttrMap attrs;
  std::shared_ptr<const std::string>
      definitions;  ///< KernelFunction::definitions of its functions.
};

class Dataset final : public VariantObject, public UsesResources {
 public:
  static constexpr int64_t kInfinite = -1;
  static constexpr int64_t kUnknown = -2;

  absl::string_view type_name() const override { return "tensorflow::DatasetVariant"; }
  std::shared_ptr<const UsedResources> uses() const override { return used; }
  absl::StatusOr<Iterator> Begin(IterationContext& ctx) const;

  ElementSpec spec;
  int64_t cardinality = kUnknown;  ///< How many elements.
  BeginFn begin;
  // What it can be made of again; null and empty of one that no node has made.
  std::shared_ptr<const DatasetNode> made_by;
  std::vector<Tensor> inputs;
  // What its functions, and those of the datasets below, have captured or name; null: nothing.
  std::shared_ptr<const UsedResources> used;
  // As KernelFunction::quiet, of all that makes its elements.
  bool quiet = false;
};
using DatasetPtr = std::shared_ptr<const Dataset>;

/// Of a dataset of `once` elements that is gone through `count` times; -1: for ever.
int64_t RepeatedCardinality(int64_t once, int64_t count);

std::shared_ptr<Dataset> NewDataset(ElementSpec spec, int64_t cardinality, BeginFn begin);

/// The one that a tensor holds. Errors: kInvalidArgument unless it is a scalar that holds one.
absl::StatusOr<DatasetPtr> DatasetFromTensor(const Tensor& tensor);

/// Whether a tensor brings a dataset nothing that is not quiet: it is plain, or a quiet dataset.
bool IsQuiet(const Tensor& tensor);
/// The same of all inputs of the kernel.
bool InputsAreQuiet(KernelContext& ctx);

/// Makes a dataset in a call.
using MakeDataset =
    absl::AnyInvocable<absl::StatusOr<std::shared_ptr<Dataset>>(KernelContext&) const>;
/// The kernel of a node whose output is one. Errors: those of its functions.
absl::StatusOr<KernelFn> DatasetKernel(KernelInit& init, MakeDataset make);
/// The same of what stands on one dataset, input 0.
using MakeOnDataset =
    absl::AnyInvocable<absl::StatusOr<std::shared_ptr<Dataset>>(KernelContext&, DatasetPtr) const>;
absl::StatusOr<KernelFn> DatasetKernel(KernelInit& init, MakeOnDataset make);

/// The scalar that input `i` is. Errors: kInvalidArgument naming it if it is none.
template <typename T>
absl::StatusOr<T> ScalarInput(KernelContext& ctx, int i, absl::string_view name);

/// The shape of a row of `value`, which has a first dimension: without that.
inline Shape RowShape(const Tensor& value) {
  return Shape::Trusted(value.shape().dims().subspan(1));
}

/// Row `i` of `value`, whose first dimension reaches so far; of shape RowShape(value).
absl::StatusOr<Tensor> RowOf(Allocator& allocator, const Tensor& value, const Shape& shape,
                             int64_t i);

/// How many rows the components of an element have.
/// Errors: kInvalidArgument unless they have a first dimension, the same one.
absl::StatusOr<int64_t> RowsOf(const Element& element);

}  // namespace formwork
