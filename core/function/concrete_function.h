#pragma once

// ConcreteFunction: a signature, the Plan that computes it, and what its captures are bound to.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/function/function_type.h"
#include "core/function/named_values.h"
#include "core/resource/resource.h"
#include "core/tensor/tensor.h"
#include "core/tensor/tensor_spec.h"

namespace formwork {

class Plan;

/// What a captured tensor of the graph is: a resource, by its ID, or a value.
struct Binding {
  uint64_t resource_id = 0;  ///< 0: `value` is meant.
  Tensor value;
};

/// What makes two registrations the same function. Two instances of a class have the same graph and
/// type but other variables: other bindings.
struct FunctionIdentity {
  std::string fingerprint;  ///< Of the graph and the cut.
  FunctionType type;
  std::vector<Binding> bindings;  ///< In the order of the captures.

  /// Values are compared by their elements.
  bool operator==(const FunctionIdentity& other) const;
};

/// A resource that a function is bound to: captured, or named by the graph itself. Held weakly: a
/// deleted resource's value goes when the last call that uses it ends.
struct BoundResource {
  uint64_t id = 0;
  std::string name;
  const ResourceKind* kind = nullptr;  ///< Never null once it is bound.
  std::weak_ptr<Resource> resource;
  Access access = Access::kNone;  ///< By calls.
  bool named = false;             ///< By the graph; else a capture.

  bool deleted() const {
    const std::shared_ptr<const Resource> held = resource.lock();
    return held == nullptr || held->destroyed();
  }
};

/// Immutable once it is in the cache, but for the counts and the hidden state. Held by shared_ptr:
/// a call keeps the function it runs, whatever happens to the cache. Thread-safe.
struct ConcreteFunction {
  uint64_t id = 0;  ///< Given by the FunctionCache; never used again.
  std::string name_space;
  std::string name;
  FunctionIdentity identity;
  std::shared_ptr<const Plan> plan;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  std::vector<TensorSpec> captures;                 ///< Of the bindings.
  std::vector<BoundResource> resources;             ///< By ID, ascending. One may be there twice.
  std::string pretty_signature;                     ///< Empty: made from the type.
  std::shared_ptr<const NamedValues> named_values;  ///< Null: it takes no values by names.
  uint64_t model_version = 0;  ///< Of the SavedModel that it is of; 0: of none.
  size_t bytes = 0;            ///< About what it holds, plan and bound values included.

  mutable std::atomic<uint64_t> calls{0};
  /// Hidden state of its nodes (KernelInit::NewState), such as how far a random op has got.
  mutable std::vector<std::atomic<uint64_t>> state;

  const FunctionType& type() const { return identity.type; }
  /// Whether a resource that it is bound to has been deleted: its calls fail from then on.
  bool broken() const;
  /// Calls `visit` with each node's part of the state, to be read or set, until it returns false.
  /// Names are those of core/plan/plan.h's VisitState: the same in each process that registers the
  /// same graph. What calls that run meanwhile draw may be in it or not.
  void VisitState(
      absl::FunctionRef<bool(absl::string_view name, absl::Span<std::atomic<uint64_t>> numbers)>
          visit) const;
};

}  // namespace formwork
