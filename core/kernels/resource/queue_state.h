#pragma once

// What a queue holds.

#include <cstdint>
#include <memory>
#include <vector>

#include "core/kernels/random/philox.h"
#include "core/ops/queue.h"
#include "core/tensor/tensor.h"

namespace formwork {

/// The state of a queue. Changed in place by who alone has it, else in a copy, which shares the
/// elements' tensors.
class Queue : public VariantObject {
 public:
  using Element = std::vector<Tensor>;

  /// An empty one.
  Queue(const ResourceType& type, QueueSettings settings);

  absl::string_view type_name() const override { return "formwork::Queue"; }
  const QueueSettings& settings() const { return settings_; }
  int64_t size() const { return static_cast<int64_t>(items_.size() - first_); }
  int64_t room() const { return settings_.capacity - size(); }
  size_t bytes() const { return bytes_; }  ///< About what it takes.
  static size_t BytesOf(const Element& element);

  bool is_closed() const { return closed_; }
  /// Of a closed one: whether those are refused, too, who have waited for room since before.
  bool refuses_all() const { return refuses_all_; }
  void Close(bool refuses_all) {
    closed_ = true;
    refuses_all_ = refuses_all_ || refuses_all;
  }

  /// How many may be taken now.
  int64_t available() const { return closed_ ? size() : size() - settings_.least_left; }
  /// Those that are taken next, in that order: at most as many as there are.
  std::vector<const Element*> Next(int64_t count) const;
  /// Takes these off.
  void Remove(int64_t count);

  /// So that so many can be added without memory.
  void Reserve(int64_t more);
  void Add(Element element);

  /// As StoredForm has it.
  std::vector<Tensor> Parts() const;
  static absl::StatusOr<std::shared_ptr<Queue>> OfParts(const ResourceType& type,
                                                        const std::vector<Tensor>& parts);

 private:
  enum class Order : uint8_t { kFifo, kPriority, kRandom };
  struct Item {
    Element element;
    uint64_t number;  // Of those that have been added: what is of one priority goes by it.
  };

  // Of a heap: whether `a` is taken after `b`.
  static bool IsLater(const Item& a, const Item& b);
  // Where in items_ those are that are taken next.
  std::vector<size_t> NextPlaces(int64_t count) const;

  Order order_;
  QueueSettings settings_;
  bool closed_ = false;
  bool refuses_all_ = false;
  // From first_ on: in the order of Add; of a priority queue a heap.
  std::vector<Item> items_;
  size_t first_ = 0;
  uint64_t added_ = 0;
  PhiloxSequence random_;
  size_t bytes_ = sizeof(Queue);
};

}  // namespace formwork
