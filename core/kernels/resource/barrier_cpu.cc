// Barrier...: elements that can be taken once all of their components are there. Errors are
// TensorFlow's, in its words (core/kernels/barrier_ops.cc there).

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernels/array/stack.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/resource/handle.h"
#include "core/kernels/resource/stored_form.h"
#include "core/kernels/state_wait.h"
#include "core/ops/barrier.h"

namespace formwork {
namespace {

// Never changed once it is written.
struct Barrier : VariantObject {
  struct Element {
    int64_t index;  // Of the insertion that began it.
    std::string key;
    std::vector<Tensor> components;  // Without value where one has not come.

    bool is_complete() const {
      return std::all_of(components.begin(), components.end(),
                         [](const Tensor& component) { return component.has_value(); });
    }
  };

  absl::string_view type_name() const override { return "barrier"; }

  int64_t ready_size() const { return static_cast<int64_t>(ready.size()); }
  int64_t total_size() const { return ready_size() + static_cast<int64_t>(incomplete.size()); }
  // How many elements a call that wants `count` is to get: later, where fewer are ready.
  int64_t ToDeliver(int64_t count, bool small_batch, bool waits_for_incomplete) const {
    if (!closed || !small_batch) return count;
    return std::min(count, waits_for_incomplete ? total_size() : ready_size());
  }

  std::string name;
  bool closed = false, cancelled = false;
  int64_t next_index = std::numeric_limits<int64_t>::min();
  std::map<std::string, Element> incomplete;
  std::vector<Element> ready;  // By index, then as they were completed.
};

void AddReady(Barrier& barrier, Barrier::Element element) {
  const auto place = std::upper_bound(
      barrier.ready.begin(), barrier.ready.end(), element.index,
      [](int64_t index, const Barrier::Element& other) { return index < other.index; });
  barrier.ready.insert(place, std::move(element));
}

ResourceValue ValueOf(std::shared_ptr<Barrier> barrier) {
  size_t bytes = sizeof(Barrier);
  const auto add = [&bytes](const Barrier::Element& element) {
    bytes += sizeof(element) + element.key.size();
    for (const Tensor& component : element.components) {
      bytes += sizeof(component) + (component.has_value() ? component.bytes() : 0);
    }
  };
  for (const auto& entry : barrier->incomplete) add(entry.second);
  for (const Barrier::Element& element : barrier->ready) add(element);
  return {Tensor::VariantScalar(std::move(barrier)), bytes};
}

const Barrier& StateOf(const Tensor& state) {
  return static_cast<const Barrier&>(*state.scalar<Variant>());
}

// --- On disk ------------------------------------------------------------------------------------

absl::StatusOr<std::vector<Tensor>> StoredParts(const ResourceType&, const Tensor& value,
                                                Allocator&) {
  const Barrier& barrier = StateOf(value);
  std::vector<Tensor> parts = {Tensor::StringScalar(barrier.name), Tensor::Scalar(barrier.closed),
                               Tensor::Scalar(barrier.cancelled),
                               Tensor::Scalar(barrier.next_index)};
  const auto add = [&parts](const Barrier::Element& element) {
    parts.push_back(Tensor::StringScalar(element.key));
    parts.push_back(Tensor::Scalar(element.index));
    for (const Tensor& component : element.components) {
      parts.push_back(Tensor::Scalar(component.has_value()));
      if (component.has_value()) parts.push_back(component);
    }
  };
  for (const Barrier::Element& element : barrier.ready) add(element);
  for (const auto& entry : barrier.incomplete) add(entry.second);
  return parts;
}

absl::Status CheckComponent(const ResourceType& type, size_t c, DType dtype,
                            const Shape& component) {
  const ResourceType::Part& part = type.parts[c];
  if (dtype != part.dtype) {
    return InvalidArgument("Type mismatch in component ", c, ". Expected ", DTypeName(part.dtype),
                           ", got ", DTypeName(dtype));
  }
  if (part.shape.Accepts(component)) return absl::OkStatus();
  return InvalidArgument("Shape mismatch in component ", c, ". Expected ", part.shape.ToString(),
                         ", got ", component.ToString());
}

absl::StatusOr<ResourceValue> ValueOfParts(const ResourceType& type,
                                           const std::vector<Tensor>& parts) {
  size_t at = 0;
  const auto next = [&](DType dtype) -> const Tensor* {
    if (at == parts.size() || parts[at].dtype() != dtype || parts[at].rank() != 0) return nullptr;
    return &parts[at++];
  };
  const absl::Status broken = InvalidArgument("these are not the parts of a barrier");
  auto barrier = std::make_shared<Barrier>();
  const Tensor* const name = next(DType::kString);
  const Tensor* const closed = next(DType::kBool);
  const Tensor* const cancelled = next(DType::kBool);
  const Tensor* const next_index = next(DType::kInt64);
  if (name == nullptr || closed == nullptr || cancelled == nullptr || next_index == nullptr) {
    return broken;
  }
  barrier->name = name->scalar<std::string>();
  barrier->closed = closed->scalar<bool>();
  barrier->cancelled = cancelled->scalar<bool>();
  barrier->next_index = next_index->scalar<int64_t>();
  while (at < parts.size()) {
    const Tensor* const key = next(DType::kString);
    const Tensor* const index = next(DType::kInt64);
    if (key == nullptr || index == nullptr) return broken;
    Barrier::Element element{index->scalar<int64_t>(), key->scalar<std::string>(), {}};
    for (size_t c = 0; c < type.parts.size(); ++c) {
      const Tensor* const is_there = next(DType::kBool);
      if (is_there == nullptr) return broken;
      Tensor& component = element.components.emplace_back();
      if (!is_there->scalar<bool>()) continue;
      if (at == parts.size()) return broken;
      component = parts[at++];
      FORMWORK_RETURN_IF_ERROR(CheckComponent(type, c, component.dtype(), component.shape()));
    }
    if (element.is_complete()) {
      AddReady(*barrier, std::move(element));
    } else {
      const std::string key_of = element.key;
      barrier->incomplete.emplace(key_of, std::move(element));
    }
  }
  return ValueOf(std::move(barrier));
}

// --- Kernels ------------------------------------------------------------------------------------

absl::StatusOr<OpenState> Open(KernelContext& ctx) {
  FORMWORK_ASSIGN_OR_RETURN(OpenState opened, OpenStateOf(ctx, IsOf<kBarrierKind>, "a barrier"));
  if (!opened.state.has_value()) return FailedPrecondition("the barrier has not been begun");
  return opened;
}

absl::Status Write(KernelContext& ctx, ResourceHandle handle, std::shared_ptr<Barrier> barrier) {
  ResourceValue value = ValueOf(std::move(barrier));
  return ctx.resources().WriteState(handle, std::move(value.value), value.bytes);
}

absl::StatusOr<KernelFn> MakeBegin(KernelInit& init) {
  std::string name = init.attrs().GetOr<std::string>("shared_name", "");
  if (name.empty()) name = std::string(init.node_name());
  return KernelFn([name = std::move(name)](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const ResourceHandle handle, HandleOf(ctx));
    if (ctx.resources().IsInitialized(handle)) return absl::OkStatus();
    auto barrier = std::make_shared<Barrier>();
    barrier->name = name;
    return Write(ctx, handle, std::move(barrier));
  });
}

// The value for each of the keys.
absl::StatusOr<std::vector<Tensor>> Values(KernelContext& ctx, const ResourceType& type,
                                           int64_t component) {
  const Tensor& keys = ctx.input(1);
  const Tensor& values = ctx.input(2);
  if (component < 0 || component >= static_cast<int64_t>(type.parts.size())) {
    return InvalidArgument("The component ID is out of range ", component,
                           " > num_components (= ", type.parts.size(), ")");
  }
  if (keys.rank() != 1) {
    return InvalidArgument("keys must be a vector, but have shape ", keys.shape().ToString());
  }
  if (values.rank() == 0 || values.shape().dim(0) != keys.shape().dim(0)) {
    return InvalidArgument("there must be as many values as keys: keys=", keys.shape().ToString(),
                           " values=", values.shape().ToString());
  }
  const Shape row = Shape::Trusted(values.shape().dims().subspan(1));
  FORMWORK_RETURN_IF_ERROR(
      CheckComponent(type, static_cast<size_t>(component), values.dtype(), row));
  return UnstackTensor(ctx.allocator(), values, 0);
}

absl::StatusOr<KernelFn> MakeInsertMany(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const int64_t component, init.attrs().Get<int64_t>("component_index"));
  return KernelFn([component](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const OpenState opened, Open(ctx));
    FORMWORK_ASSIGN_OR_RETURN(std::vector<Tensor> values, Values(ctx, opened.type, component));
    auto changed = std::make_shared<Barrier>(StateOf(opened.state));
    const std::string* const keys = ctx.input(1).data<std::string>();
    bool begins = false;
    for (size_t i = 0; i < values.size(); ++i) {
      auto found = changed->incomplete.find(keys[i]);
      if (found == changed->incomplete.end()) {
        if (changed->closed) {
          return absl::CancelledError(absl::StrCat(
              "Barrier ", changed->name,
              " is closed, but attempted to insert a brand new key: ", keys[i],
              ".  Pending enqueues cancelled: ", changed->cancelled, ".  Insertion index: ", i,
              ".  Number of incomplete keys: ", changed->incomplete.size(), "."));
        }
        begins = true;
        Barrier::Element element{changed->next_index, keys[i],
                                 std::vector<Tensor>(opened.type.parts.size())};
        found = changed->incomplete.emplace(keys[i], std::move(element)).first;
      }
      Tensor& value = found->second.components[static_cast<size_t>(component)];
      if (value.has_value()) {
        return InvalidArgument("Key ", keys[i], " already has a value for component ", component,
                               " in barrier ", changed->name);
      }
      value = std::move(values[i]);
      if (!found->second.is_complete()) continue;
      AddReady(*changed, std::move(found->second));
      changed->incomplete.erase(found);
    }
    if (begins) ++changed->next_index;
    return Write(ctx, opened.handle, std::move(changed));
  });
}

absl::StatusOr<KernelFn> MakeTakeMany(KernelInit& init) {
  const bool small_batch = init.attrs().GetOr<bool>("allow_small_batch", false);
  const bool waits = init.attrs().GetOr<bool>("wait_for_incomplete", false);
  const absl::Span<const DType> outputs = init.output_dtypes();
  return KernelFn([small_batch, waits,
                   dtypes = std::vector<DType>(outputs.begin() + 2, outputs.end())](
                      KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(ComeBack(ctx));
    FORMWORK_ASSIGN_OR_RETURN(const OpenState opened, Open(ctx));
    const Barrier& barrier = StateOf(opened.state);
    for (size_t c = 0; c < dtypes.size(); ++c) {
      if (dtypes.size() == opened.type.parts.size() && dtypes[c] == opened.type.parts[c].dtype) {
        continue;
      }
      return InvalidArgument("component_types are not those of barrier ", barrier.name);
    }
    if (ctx.input(1).rank() != 0) return InvalidArgument("num_elements must be a scalar.");
    const int64_t asked = ctx.input(1).scalar<int32_t>();
    if (asked < 0) return InvalidArgument("num_elements must be >= 0: ", asked);
    const int64_t count = barrier.ToDeliver(asked, small_batch, waits);
    if (barrier.closed &&
        (barrier.total_size() < std::max<int64_t>(count, 1) || (count == 0 && asked > 0))) {
      return absl::OutOfRangeError(absl::StrCat(
          "Barrier '", barrier.name, "' is closed and has insufficient elements (requested ", asked,
          ", total size ", barrier.total_size(), ")"));
    }
    if (barrier.ready_size() < count) {
      return AwaitState(ctx, opened.handle, "elements of a barrier", [=](const Tensor& state) {
        const Barrier& now = StateOf(state);
        return now.closed || now.ready_size() >= now.ToDeliver(asked, small_batch, waits);
      });
    }
    auto changed = std::make_shared<Barrier>(barrier);
    const auto begin = changed->ready.begin(), end = begin + static_cast<ptrdiff_t>(count);
    const Shape vector = Shape({count});
    FORMWORK_ASSIGN_OR_RETURN(Tensor * indices, ctx.AllocateOutput(0, DType::kInt64, vector));
    FORMWORK_ASSIGN_OR_RETURN(Tensor * keys, ctx.AllocateOutput(1, DType::kString, vector));
    std::transform(begin, end, indices->mutable_data<int64_t>(),
                   [](const Barrier::Element& element) { return element.index; });
    std::transform(begin, end, keys->mutable_data<std::string>(),
                   [](const Barrier::Element& element) { return element.key; });
    for (size_t c = 0; c < dtypes.size(); ++c) {
      std::vector<const Tensor*> rows;
      for (auto element = begin; element != end; ++element) {
        rows.push_back(&element->components[c]);
      }
      absl::StatusOr<Tensor> batch;
      if (rows.empty()) {
        Dims dims = {0};
        const PartialShape& shape = opened.type.parts[c].shape;
        for (int64_t dim : shape.dims()) dims.push_back(std::max<int64_t>(dim, 0));
        FORMWORK_ASSIGN_OR_RETURN(const Shape empty, Shape::Make(dims));
        batch = Tensor::Allocate(ctx.allocator(), dtypes[c], empty);
      } else {
        batch = StackTensors(ctx.allocator(), rows, 0);
      }
      if (!batch.ok()) return batch.status();
      ctx.SetOutput(static_cast<int>(c) + 2, *std::move(batch));
    }
    if (count == 0) return absl::OkStatus();
    changed->ready.erase(begin, end);
    return Write(ctx, opened.handle, std::move(changed));
  });
}

absl::StatusOr<KernelFn> MakeClose(KernelInit& init) {
  const bool cancels = init.attrs().GetOr<bool>("cancel_pending_enqueues", false);
  return KernelFn([cancels](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const OpenState opened, Open(ctx));
    const Barrier& barrier = StateOf(opened.state);
    if (barrier.closed && (!cancels || barrier.cancelled)) {
      return absl::CancelledError(absl::StrCat("Barrier '", barrier.name, "' is already closed."));
    }
    auto changed = std::make_shared<Barrier>(barrier);
    changed->closed = true;
    changed->cancelled = cancels;
    if (cancels) changed->incomplete.clear();
    return Write(ctx, opened.handle, std::move(changed));
  });
}

template <bool ready>
absl::StatusOr<KernelFn> MakeSize(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const OpenState opened, Open(ctx));
    const Barrier& barrier = StateOf(opened.state);
    const size_t size = ready ? barrier.ready.size() : barrier.incomplete.size();
    ctx.SetOutput(0, Tensor::Scalar(static_cast<int32_t>(size)));
    return absl::OkStatus();
  });
}

}  // namespace

const StoredForm kStoredBarrier = {
    .kind = kBarrierKind, .parts = StoredParts, .value = ValueOfParts};

void RegisterBarrierCpuKernels(KernelRegistry& registry) {
  registry.Add("Barrier", MakeBegin);
  registry.Add("BarrierInsertMany", MakeInsertMany);
  registry.Add("BarrierTakeMany", MakeTakeMany);
  registry.Add("BarrierClose", MakeClose);
  registry.Add("BarrierReadySize", MakeSize<true>);
  registry.Add("BarrierIncompleteSize", MakeSize<false>);
}

}  // namespace formwork
