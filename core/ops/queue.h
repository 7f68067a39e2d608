#pragma once

// Queues (tf.queue): what their ops, on any device, have in common. Errors are TensorFlow's, in its
// words (core/kernels/queue_base.cc and its subclasses there).

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/ops/attr.h"
#include "core/tensor/resource_type.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// Their parts are the components of an element; of a priority queue the priority first. Named as
/// TensorFlow's errors name them.
inline constexpr ResourceKind kFifoQueueKind{"FIFOQueue"};
inline constexpr ResourceKind kPaddingFifoQueueKind{"PaddingFIFOQueue"};
inline constexpr ResourceKind kPriorityQueueKind{"PriorityQueue"};
inline constexpr ResourceKind kRandomShuffleQueueKind{"RandomShuffleQueue"};
bool IsQueue(const ResourceType& type);

/// How one is declared, beside its type.
struct QueueSettings {
  std::string name;              ///< For errors.
  int64_t capacity = 0;          ///< Elements; the largest int64 where there is no limit.
  int64_t least_left = 0;        ///< min_after_dequeue of a shuffling one.
  uint64_t seed = 0, seed2 = 0;  ///< Of a shuffling one, both 0: drawn when it begins.
};
/// Of a node of that name. Errors: kInvalidArgument.
absl::StatusOr<QueueSettings> QueueSettingsOf(const AttrMap& attrs, absl::string_view node_name);
/// Whether a queue that is there may go by the `asked` settings, too.
absl::Status CheckSharedQueue(const QueueSettings& there, const QueueSettings& asked);

/// Whether `element` is one for a queue of that type.
absl::Status CheckElement(const ResourceType& type, absl::Span<const Tensor* const> element);
/// The same of a batch of them, whose size it gives.
absl::StatusOr<int64_t> CheckElements(const ResourceType& type,
                                      absl::Span<const Tensor* const> batch);
/// Whether what is taken has these dtypes.
absl::Status CheckComponents(const ResourceType& type, absl::Span<const DType> dtypes);
/// The number of elements that `n` says, which are to be taken as one batch by `op`; the type's
/// shapes have to be known for that.
absl::StatusOr<int64_t> BatchToTake(const ResourceType& type, const Tensor& n,
                                    absl::string_view op);

absl::Status QueueIsClosed(const ResourceType& type, const QueueSettings& queue);
absl::Status TooFewElements(const ResourceType& type, const QueueSettings& queue, int64_t asked,
                            int64_t size);

}  // namespace formwork
