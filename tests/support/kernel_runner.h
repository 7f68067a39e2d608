#pragma once

// Runs single kernels on variables and lists, which op cases have no text for.
//
//   KernelRunner run;
//   ASSERT_OK_AND_ASSIGN(std::vector<Tensor> outputs,
//                        run.Op("TensorListLength", {}, {std::move(list)}));

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/device/host_allocator.h"
#include "core/kernels/kernel.h"
#include "core/resource/access_ticket.h"
#include "core/resource/resource_store.h"

namespace formwork::testing {

/// One thread's. Its variables, hidden state, printed text and the memory of what its kernels give
/// last as long as it does.
class KernelRunner final : public CallScope {
 public:
  using Attrs = std::vector<std::pair<std::string, AttrValue>>;

  explicit KernelRunner(size_t limit_bytes = 0);

  /// Makes the kernel and runs it once; it may take `inputs` over. Attrs that are missing take
  /// their defaults. Errors: those of the factory and the kernel.
  absl::StatusOr<std::vector<Tensor>> Op(absl::string_view op, Attrs attrs,
                                         std::vector<Tensor> inputs);
  /// The first output.
  absl::StatusOr<Tensor> One(absl::string_view op, Attrs attrs, std::vector<Tensor> inputs);

  /// A kernel to run more than once.
  absl::StatusOr<KernelFn> Make(absl::string_view op, Attrs attrs, std::vector<DType> inputs,
                                std::vector<DType> outputs);
  absl::StatusOr<std::vector<Tensor>> Run(const KernelFn& kernel, std::vector<Tensor> inputs,
                                          int num_outputs);

  /// A handle of a new variable, which may have no value.
  Tensor NewVariable(absl::string_view name, DType dtype, const PartialShape& shape,
                     std::optional<Tensor> value) {
    return NewResource(name, ResourceType::Variable(dtype, shape), std::move(value));
  }
  Tensor NewResource(absl::string_view name, ResourceType type,
                     std::optional<Tensor> value = std::nullopt);
  Tensor ValueOf(const Tensor& handle);
  size_t BytesOf(const Tensor& handle) {
    return store_.Find(handle.scalar<ResourceHandle>().id)->bytes();
  }

  /// What ops have made of resources since the last NewResource.
  std::vector<ResourceChange> changes() const { return ticket_->Changes(); }

  const std::string& printed() const { return printed_; }

  Allocator& allocator() override { return allocator_; }
  ResourceAccess& resources() override { return *ticket_; }
  void Print(absl::string_view text) override { absl::StrAppend(&printed_, text); }
  StopFlag& stop() override { return stop_; }
  std::atomic<uint64_t>& state(int index) override;
  ResourceHandle named_resource(int) override { return {}; }

 private:
  class Init;

  MemoryBudget budget_;
  HostAllocator allocator_;
  OpRegistry ops_;
  KernelRegistry kernels_{ops_};
  ResourceStore store_;
  std::vector<AccessRequest> resources_;
  std::unique_ptr<AccessTicket> ticket_;
  std::deque<std::atomic<uint64_t>> state_;
  std::string printed_;
  StopFlag stop_;
};

/// Inputs that a kernel may take over: a list in braces would hold on to copies.
template <typename... Tensors>
std::vector<Tensor> Owned(Tensors... tensors) {
  std::vector<Tensor> inputs;
  (inputs.push_back(std::move(tensors)), ...);
  return inputs;
}

/// A tensor of plain data.
template <typename T>
Tensor TensorOf(const Shape& shape, const std::vector<T>& values) {
  Tensor tensor = *Tensor::Allocate(ProcessAllocator(), DTypeOf<T>::value, shape);
  for (size_t i = 0; i < values.size(); ++i) tensor.mutable_data<T>()[i] = values[i];
  return tensor;
}
template <typename T>
Tensor VectorOf(const std::vector<T>& values) {
  return TensorOf<T>(Shape({static_cast<int64_t>(values.size())}), values);
}
template <typename T>
std::vector<T> ValuesOf(const Tensor& tensor) {
  return {tensor.span<T>().begin(), tensor.span<T>().end()};
}

}  // namespace formwork::testing
