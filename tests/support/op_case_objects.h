#pragma once

// The values of op cases that are no plain data: lists, optionals, sparse matrices, and what is
// behind handles.
//
//   (list float shape=[2,?] max=3 (float[2,1] 1 2) none)    items, of which one is not set
//   (optional (float[2] 1 2) (int32 3))                     its components; none: no value
//   (csr [2,3] (int64[2,2] 0 1 1 2) (float[2] 5 6))         shape, where entries are, their values
//   (variable shape=[?] float[2] 1 2)                       shape: as declared, else the value's
//   (variable float[2] none)                                without a value
//   (table string[2] "a" "b" -> int64[2] 1 2)               keys and values

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/kernels/kernel.h"
#include "core/resource/access_ticket.h"
#include "core/resource/resource_store.h"
#include "core/tensor/resource_type.h"
#include "tests/support/op_case.h"

namespace formwork::testing {

absl::StatusOr<Variant> MakeVariant(absl::string_view text, Allocator& allocator);
/// An item that is not set is as good as zeros, as which it is read. Errors: kFailedPrecondition
/// that names the first difference.
absl::Status CompareVariant(absl::string_view expected, const Variant& got);

struct ResourceText {
  ResourceType type;
  std::optional<ValueText> value;  ///< A variable's.
  ValueText keys, values;          ///< A table's.
};
absl::StatusOr<ResourceText> ParseResource(const ValueText& text);

/// The resources of one run of a case. `allocator`'s memory goes with them.
class CaseResources {
 public:
  CaseResources(const OpRegistry& ops, const KernelRegistry& kernels, Allocator& allocator);

  /// A handle of what `text` says.
  absl::StatusOr<Tensor> Add(const ValueText& text);
  /// A handle of a new one of that type, with that value or without any.
  absl::StatusOr<Tensor> Add(ResourceType type, std::optional<Tensor> value = std::nullopt);
  /// Errors: kFailedPrecondition unless resource `i` is what `expected` says.
  absl::Status Compare(size_t i, const ValueText& expected,
                       const std::optional<Tolerance>& tolerance);
  ResourceAccess& access() { return *ticket_; }

 private:
  absl::StatusOr<std::vector<Tensor>> RunOp(absl::string_view op, std::vector<Tensor> inputs,
                                            std::vector<DType> outputs);

  const OpRegistry& ops_;
  const KernelRegistry& kernels_;
  Allocator& allocator_;
  ResourceStore store_;
  std::vector<AccessRequest> requests_;
  std::unique_ptr<AccessTicket> ticket_;
};

/// What an op case's kernel sees of its call.
class CaseScope final : public CallScope {
 public:
  CaseScope(Allocator& allocator, ResourceAccess& resources, StopFlag& stop)
      : allocator_(allocator), resources_(resources), stop_(stop) {}
  Allocator& allocator() override { return allocator_; }
  ResourceAccess& resources() override { return resources_; }
  void Print(absl::string_view) override {}
  StopFlag& stop() override { return stop_; }
  std::atomic<uint64_t>& state(int index) override {
    while (static_cast<int>(state_.size()) <= index) state_.emplace_back(0);
    return state_[index];
  }
  ResourceHandle named_resource(int) override { return {}; }

 private:
  Allocator& allocator_;
  ResourceAccess& resources_;
  StopFlag& stop_;
  std::deque<std::atomic<uint64_t>> state_;
};

class CaseInit final : public KernelInit {
 public:
  CaseInit(const OpDef& op, const AttrMap& attrs, std::vector<DType> inputs,
           std::vector<DType> outputs)
      : op_(op), attrs_(attrs), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {}
  absl::string_view node_name() const override { return "case"; }
  const OpDef& op() const override { return op_; }
  const AttrMap& attrs() const override { return attrs_; }
  absl::Span<const DType> input_dtypes() const override { return inputs_; }
  absl::Span<const DType> output_dtypes() const override { return outputs_; }
  int NewState(int count) override { return std::exchange(state_, state_ + count); }

 private:
  const OpDef& op_;
  const AttrMap& attrs_;
  std::vector<DType> inputs_;
  std::vector<DType> outputs_;
  int state_ = 0;  // Numbers of it.
};

}  // namespace formwork::testing
