#include "core/ops/queue.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/ops/graph_dtype.h"
#include "core/ops/register_ops.h"
#include "core/ops/shape_inference.h"

namespace formwork {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// A batch of so many of a component.
PartialShape Batched(const PartialShape& component, int64_t size) {
  std::vector<int64_t> dims = {size};
  dims.insert(dims.end(), component.dims().begin(), component.dims().end());
  return PartialShape::Trusted(dims);
}

absl::Status CheckCount(size_t expected, size_t given) {
  if (expected == given) return absl::OkStatus();
  return InvalidArgument("Wrong number of components in tuple. Expected ", expected, ", got ",
                         given);
}

absl::Status CheckDTypes(const ResourceType& type, absl::Span<const Tensor* const> element) {
  FORMWORK_RETURN_IF_ERROR(CheckCount(type.parts.size(), element.size()));
  for (size_t i = 0; i < element.size(); ++i) {
    if (element[i]->dtype() == type.parts[i].dtype) continue;
    return InvalidArgument("Type mismatch in tuple component ", i, ". Expected ",
                           GraphDTypeName(type.parts[i].dtype), ", got ",
                           GraphDTypeName(element[i]->dtype()));
  }
  return absl::OkStatus();
}

absl::Status ShapeMismatch(size_t component, const PartialShape& expected, const Shape& given) {
  return InvalidArgument("Shape mismatch in tuple component ", component, ". Expected ",
                         expected.ToString(), ", got ", given.ToString());
}

absl::StatusOr<ResourceType> TypeOf(const ResourceKind& kind, const AttrMap& attrs) {
  FORMWORK_ASSIGN_OR_RETURN(const auto dtypes, attrs.Get<std::vector<DType>>("component_types"));
  FORMWORK_ASSIGN_OR_RETURN(const auto shapes, attrs.Get<std::vector<PartialShape>>("shapes"));
  if (!shapes.empty() && shapes.size() != dtypes.size()) {
    return InvalidArgument("Different number of component types.  Types: ", dtypes.size(),
                           ", Shapes: ", shapes.size());
  }
  if (shapes.empty() && kind.name == kPaddingFifoQueueKind.name) {
    return InvalidArgument("Shapes must be provided for all components, but received 0 shapes and ",
                           dtypes.size(), " types.");
  }
  ResourceType type;
  type.kind = &kind;
  if (kind.name == kPriorityQueueKind.name) type.parts.push_back({DType::kInt64, Shape()});
  for (size_t i = 0; i < dtypes.size(); ++i) {
    const PartialShape shape = shapes.empty() ? PartialShape() : shapes[i];
    if (!IsPlainData(dtypes[i]) && dtypes[i] != DType::kString) {
      return Unimplemented("a queue of components of dtype ", DTypeName(dtypes[i]));
    }
    if (kind.name == kPaddingFifoQueueKind.name && !shape.known_rank()) {
      return InvalidArgument("shape of component ", i, " must have known rank");
    }
    if (kind.name != kPaddingFifoQueueKind.name && !shapes.empty() && !shape.fully_known()) {
      return InvalidArgument("shape of component ", i,
                             " must be fully defined: ", shape.ToString());
    }
    type.parts.push_back({dtypes[i], shape});
  }
  return type;
}

template <const ResourceKind& kind>
absl::StatusOr<ResourceType> TypeOfQueue(const AttrMap& attrs) {
  return TypeOf(kind, attrs);
}

}  // namespace

bool IsQueue(const ResourceType& type) {
  return type.kind == &kFifoQueueKind || type.kind == &kPaddingFifoQueueKind ||
         type.kind == &kPriorityQueueKind || type.kind == &kRandomShuffleQueueKind;
}

absl::StatusOr<QueueSettings> QueueSettingsOf(const AttrMap& attrs, absl::string_view node_name) {
  QueueSettings settings;
  settings.name = attrs.GetOr<std::string>("shared_name", "");
  if (settings.name.empty()) settings.name = std::string(node_name);
  FORMWORK_ASSIGN_OR_RETURN(settings.capacity, attrs.Get<int64_t>("capacity"));
  if (settings.capacity < 0) settings.capacity = kNoLimit;
  settings.least_left = attrs.GetOr<int64_t>("min_after_dequeue", 0);
  if (settings.least_left < 0) {
    return InvalidArgument("min_after_dequeue ", settings.least_left, " must be >= 0");
  }
  if (settings.least_left >= settings.capacity) {
    return InvalidArgument("min_after_dequeue ", settings.least_left, " must be < capacity ",
                           settings.capacity);
  }
  settings.seed = static_cast<uint64_t>(attrs.GetOr<int64_t>("seed", 0));
  settings.seed2 = static_cast<uint64_t>(attrs.GetOr<int64_t>("seed2", 0));
  return settings;
}

absl::Status CheckSharedQueue(const QueueSettings& there, const QueueSettings& asked) {
  const auto limit = [](int64_t capacity) { return capacity == kNoLimit ? -1 : capacity; };
  if (there.capacity != asked.capacity) {
    return InvalidArgument("Shared queue '", there.name, "' has capacity ", limit(there.capacity),
                           " but requested capacity was ", limit(asked.capacity));
  }
  if (there.least_left != asked.least_left) {
    return InvalidArgument("Shared queue '", there.name, "' has min_after_dequeue ",
                           there.least_left, " but requested min_after_dequeue was ",
                           asked.least_left);
  }
  return absl::OkStatus();
}

absl::Status CheckElement(const ResourceType& type, absl::Span<const Tensor* const> element) {
  FORMWORK_RETURN_IF_ERROR(CheckDTypes(type, element));
  for (size_t i = 0; i < element.size(); ++i) {
    const PartialShape& shape = type.parts[i].shape;
    if (!shape.Accepts(element[i]->shape())) return ShapeMismatch(i, shape, element[i]->shape());
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> CheckElements(const ResourceType& type,
                                      absl::Span<const Tensor* const> batch) {
  FORMWORK_RETURN_IF_ERROR(CheckDTypes(type, batch));
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch[i]->rank() > 0) continue;
    return InvalidArgument("Shape must be at least rank 1 but is rank 0 in tuple component ", i);
  }
  const int64_t size = batch[0]->shape().dim(0);
  for (size_t i = 0; i < batch.size(); ++i) {
    const Shape& given = batch[i]->shape();
    if (type.parts[i].shape.known_rank()) {
      const PartialShape expected = Batched(type.parts[i].shape, size);
      if (!expected.Accepts(given)) return ShapeMismatch(i, expected, given);
    } else if (given.dim(0) != size) {
      return InvalidArgument(
          "All input tensors must have the same size in the 0th dimension. Component ", i, " has ",
          given.dim(0), ", and should have ", size);
    }
  }
  return size;
}

absl::Status CheckComponents(const ResourceType& type, absl::Span<const DType> dtypes) {
  FORMWORK_RETURN_IF_ERROR(CheckCount(type.parts.size(), dtypes.size()));
  for (size_t i = 0; i < dtypes.size(); ++i) {
    if (dtypes[i] == type.parts[i].dtype) continue;
    return InvalidArgument("Type mismatch in tuple component ", i, ". Expected ",
                           GraphDTypeName(type.parts[i].dtype), ", got ",
                           GraphDTypeName(dtypes[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> BatchToTake(const ResourceType& type, const Tensor& n,
                                    absl::string_view op) {
  if (n.rank() != 0) {
    return InvalidArgument(op, ": n must be a scalar, but has shape ", n.shape().ToString());
  }
  const int64_t count = n.scalar<int32_t>();
  if (count < 0) return InvalidArgument(op, "Op requested ", count, " < 0 elements");
  for (const ResourceType::Part& part : type.parts) {
    if (part.shape.known_rank()) continue;
    return InvalidArgument(type.kind->name,
                           "'s DequeueMany and DequeueUpTo require the components to have "
                           "specified shapes.");
  }
  return count;
}

absl::Status QueueIsClosed(const ResourceType& type, const QueueSettings& queue) {
  return absl::CancelledError(absl::StrCat(type.kind->name, " '", queue.name, "' is closed."));
}

absl::Status TooFewElements(const ResourceType& type, const QueueSettings& queue, int64_t asked,
                            int64_t size) {
  return absl::OutOfRangeError(absl::StrCat(type.kind->name, " '", queue.name,
                                            "' is closed and has insufficient elements (requested ",
                                            asked, ", current size ", size, ")"));
}

void RegisterQueueOps(OpRegistry& registry) {
  struct Kind {
    absl::string_view op;
    ResourceTypeFn type;
    absl::string_view attrs;
  };
  // Those of TensorFlow 1 have another type of handle there.
  for (absl::string_view version : {"", "V2"}) {
    const auto add = [&](absl::string_view op, absl::string_view spec, OpTraits traits) {
      registry.Add(absl::StrCat(op, version, spec), traits);
    };
    // Their kernels run behind the handle and begin the queue.
    for (const Kind& kind :
         {Kind{"FIFOQueue", TypeOfQueue<kFifoQueueKind>,
               "component_types: list(type) >= 1; shapes: list(shape) >= 0 = []"},
          Kind{"PaddingFIFOQueue", TypeOfQueue<kPaddingFifoQueueKind>,
               "component_types: list(type) >= 1; shapes: list(shape) >= 0 = []"},
          Kind{"PriorityQueue", TypeOfQueue<kPriorityQueueKind>,
               "component_types: list(type) >= 0 = []; shapes: list(shape) >= 0"},
          Kind{"RandomShuffleQueue", TypeOfQueue<kRandomShuffleQueueKind>,
               "component_types: list(type) >= 1; shapes: list(shape) >= 0 = []; "
               "min_after_dequeue: int = 0; seed: int = 0; seed2: int = 0"}}) {
      add(kind.op,
          absl::StrCat("() -> (handle: resource); ", kind.attrs,
                       "; capacity: int = -1; container: string = \"\"; shared_name: string = "
                       "\"\""),
          {.shape_fn = shapes::Scalar, .handle_of = kind.type});
    }
    for (absl::string_view op : {"QueueEnqueue", "QueueEnqueueMany"}) {
      add(op,
          "(handle: resource, components: Tcomponents) -> (); Tcomponents: list(type) >= 1; "
          "timeout_ms: int = -1",
          {.effect = Effect::kWrite, .waits = true});
    }
    add("QueueDequeue",
        "(handle: resource) -> (components: component_types); component_types: list(type) >= 1; "
        "timeout_ms: int = -1",
        {.effect = Effect::kWrite, .waits = true});
    for (absl::string_view op : {"QueueDequeueMany", "QueueDequeueUpTo"}) {
      add(op,
          "(handle: resource, n: host int32) -> (components: component_types); component_types: "
          "list(type) >= 1; timeout_ms: int = -1",
          {.effect = Effect::kWrite, .waits = true});
    }
    add("QueueClose", "(handle: resource) -> (); cancel_pending_enqueues: bool = false",
        {.effect = Effect::kWrite});
    add("QueueSize", "(handle: resource) -> (size: host int32)",
        {.shape_fn = shapes::Scalar, .effect = Effect::kRead});
    add("QueueIsClosed", "(handle: resource) -> (is_closed: bool)",
        {.shape_fn = shapes::Scalar, .effect = Effect::kRead});
  }
}

}  // namespace formwork
