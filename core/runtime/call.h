#pragma once

// One execution: what its steps share.

#include <atomic>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "core/kernels/kernel.h"

namespace formwork {

/// Used by one thread at a time; of the lanes of a fork, which run side by side, each may allocate,
/// read resources and look at the stop flag.
class Call final : public CallScope {
 public:
  /// `state`, `named` and `stop` outlive the call; `resources` too, and may be set later, before
  /// the first step runs.
  Call(Allocator& allocator, absl::Span<std::atomic<uint64_t>> state,
       const std::vector<ResourceHandle>* named, StopFlag& stop)
      : allocator_(allocator), state_(state), named_(named), stop_(stop) {}

  void set_resources(ResourceAccess* resources) { resources_ = resources; }
  /// Takes what is printed, as it is printed, in place of printed(). Outlives the call.
  void set_print(absl::AnyInvocable<void(absl::string_view)>* print) { print_ = print; }
  /// Of a plan for a device. Outlives the call.
  void set_streams(StreamScope* streams) { streams_ = streams; }
  /// Outlives the call.
  void set_files_dir(absl::string_view folder) { files_dir_ = folder; }
  /// Outlives the call; null: there are none.
  void set_client_functions(ClientFunctions* functions) { client_functions_ = functions; }
  std::vector<std::string>& printed() { return printed_; }
  bool has_effects() const { return stop_.after_effect(); }

  Allocator& allocator() override { return allocator_; }
  ResourceAccess& resources() override { return *resources_; }
  void Print(absl::string_view text) override;
  StopFlag& stop() override { return stop_; }
  std::atomic<uint64_t>& state(int index) override { return state_[first_state() + index]; }
  ResourceHandle named_resource(int index) override { return (*named_)[index]; }
  StreamScope* streams() override { return streams_; }
  absl::string_view files_dir() const override { return files_dir_; }
  ClientFunctions* client_functions() override { return client_functions_; }
  absl::StatusOr<std::unique_ptr<FunctionRun>> NewRun(const BoundFunction& function) override;

 private:
  Allocator& allocator_;
  ResourceAccess* resources_ = nullptr;
  const absl::Span<std::atomic<uint64_t>> state_;
  const std::vector<ResourceHandle>* const named_;
  StopFlag& stop_;
  StreamScope* streams_ = nullptr;
  absl::string_view files_dir_;
  ClientFunctions* client_functions_ = nullptr;
  absl::AnyInvocable<void(absl::string_view)>* print_ = nullptr;
  size_t printed_bytes_ = 0;
  std::vector<std::string> printed_;
};

}  // namespace formwork
