#pragma once

// Datasets: what gives elements, and the iterators that ask for them.
//
//   Dataset    a variant, never changed: how to begin, what elements are, how many there are
//   Iterator   a position in one
//   Element    its components
//
// A kernel makes a dataset of its inputs and says how an iterator begins. That is a closure, and
// what it returns is another, over the iterator's state, that gives one element after the other:
//
//   return NewDataset(input->spec, cardinality, [=](IterationContext& ctx) -> Begun {
//     FORMWORK_ASSIGN_OR_RETURN(Iterator it, input->Begin(ctx));
//     return NextFn([it = std::move(it), left](IterationContext& ctx, Element& element) mutable
//                       -> absl::StatusOr<bool> {
//       return left-- > 0 ? it.Next(ctx, element) : false;
//     });
//   });
//
// Elements are made on the thread that asks for them, in TensorFlow's order, within the call that
// asks: its memory, its resources, its StopFlag. Iterators have no thread of their own.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/kernels/kernel.h"
#include "core/ops/data.h"
#include "core/tensor/tensor.h"

namespace formwork {

using Element = std::vector<Tensor>;

/// Who asks for elements: a kernel, while it runs. Used by one thread.
class IterationContext {
 public:
  explicit IterationContext(CallScope& call) : call(call) {}
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
};

/// Makes the next element; false: there is none, and it is not asked again.
using NextFn = absl::AnyInvocable<absl::StatusOr<bool>(IterationContext&, Element&)>;
using Begun = absl::StatusOr<NextFn>;
using BeginFn = absl::AnyInvocable<Begun(IterationContext&) const>;

/// Used by one thread at a time. After an error it may be asked on.
class Iterator {
 public:
  Iterator() = default;  ///< At its end.
  explicit Iterator(NextFn next) : next_(std::move(next)) {}

  /// The next element; false at the end, where `element` is left empty.
  absl::StatusOr<bool> Next(IterationContext& ctx, Element& element);
  bool at_end() const { return next_ == nullptr; }

 private:
  NextFn next_;  // Null at the end.
};

class Dataset final : public VariantObject {
 public:
  static constexpr int64_t kInfinite = -1;
  static constexpr int64_t kUnknown = -2;

  absl::string_view type_name() const override { return "tensorflow::DatasetVariant"; }
  absl::StatusOr<Iterator> Begin(IterationContext& ctx) const;

  ElementSpec spec;
  int64_t cardinality = kUnknown;  ///< How many elements.
  BeginFn begin;
};
using DatasetPtr = std::shared_ptr<const Dataset>;

std::shared_ptr<Dataset> NewDataset(ElementSpec spec, int64_t cardinality, BeginFn begin);

/// The one that a tensor holds. Errors: kInvalidArgument unless it is a scalar that holds one.
absl::StatusOr<DatasetPtr> DatasetFromTensor(const Tensor& tensor);

/// Makes a dataset in a call.
using MakeDataset =
    absl::AnyInvocable<absl::StatusOr<std::shared_ptr<Dataset>>(KernelContext&) const>;
/// The kernel of an op whose output is one.
KernelFn DatasetKernel(MakeDataset make);
/// The same of what stands on one dataset, input 0.
using MakeOnDataset =
    absl::AnyInvocable<absl::StatusOr<std::shared_ptr<Dataset>>(KernelContext&, DatasetPtr) const>;
KernelFn DatasetKernel(MakeOnDataset make);

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
