#include "core/kernels/resource/queue_state.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "core/base/hash_map.h"
#include "core/base/status.h"
#include "core/kernels/resource/stored_form.h"

namespace formwork {

Queue::Queue(const ResourceType& type, QueueSettings settings)
    : order_(type.kind == &kPriorityQueueKind        ? Order::kPriority
             : type.kind == &kRandomShuffleQueueKind ? Order::kRandom
                                                     : Order::kFifo),
      settings_(std::move(settings)),
      random_(Philox(settings_.seed, settings_.seed2)) {
  if (order_ == Order::kRandom && settings_.seed == 0 && settings_.seed2 == 0) {
    std::random_device device;
    settings_.seed = device() | 1;
    settings_.seed2 = device();
    random_ = PhiloxSequence(Philox(settings_.seed, settings_.seed2));
  }
}

size_t Queue::BytesOf(const Element& element) {
  size_t bytes = sizeof(Item);
  for (const Tensor& component : element) {
    bytes += sizeof(Tensor) + component.bytes();
    if (component.dtype() != DType::kString) continue;
    for (const std::string& text : component.span<std::string>()) bytes += text.size();
  }
  return bytes;
}

bool Queue::IsLater(const Item& a, const Item& b) {
  const int64_t of_a = a.element[0].scalar<int64_t>(), of_b = b.element[0].scalar<int64_t>();
  return of_a != of_b ? of_a > of_b : a.number > b.number;
}

std::vector<size_t> Queue::NextPlaces(int64_t count) const {
  std::vector<size_t> places(static_cast<size_t>(count));
  switch (order_) {
    case Order::kFifo:
      std::iota(places.begin(), places.end(), first_);
      break;
    case Order::kPriority: {
      if (count == 1) return {0};
      std::vector<size_t> all(items_.size());
      std::iota(all.begin(), all.end(), size_t{0});
      std::partial_sort_copy(all.begin(), all.end(), places.begin(), places.end(),
                             [this](size_t a, size_t b) { return IsLater(items_[b], items_[a]); });
      break;
    }
    case Order::kRandom: {
      // One that is taken leaves its place to the last one.
      PhiloxSequence random = random_;
      HashMap<size_t, size_t> moved;
      const auto at = [&moved](size_t place) {
        const auto found = moved.find(place);
        return found == moved.end() ? place : found->second;
      };
      size_t left = items_.size();
      for (size_t& place : places) {
        const size_t drawn = random.Next() % left;
        place = at(drawn);
        moved[drawn] = at(--left);
      }
      break;
    }
  }
  return places;
}

std::vector<const Queue::Element*> Queue::Next(int64_t count) const {
  std::vector<const Element*> next;
  next.reserve(static_cast<size_t>(count));
  for (size_t place : NextPlaces(count)) next.push_back(&items_[place].element);
  return next;
}

void Queue::Remove(int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    size_t place = first_;
    if (order_ == Order::kRandom) {
      place = random_.Next() % items_.size();
      std::swap(items_[place], items_.back());
      place = items_.size() - 1;
    } else if (order_ == Order::kPriority) {
      std::pop_heap(items_.begin(), items_.end(), IsLater);
      place = items_.size() - 1;
    }
    bytes_ -= BytesOf(items_[place].element);
    if (order_ == Order::kFifo) {
      items_[first_++].element.clear();
    } else {
      items_.pop_back();
    }
  }
  // What has been taken is most of it: others move up, each at most once for one that was taken.
  if (first_ > items_.size() / 2) {
    items_.erase(items_.begin(), items_.begin() + static_cast<ptrdiff_t>(first_));
    first_ = 0;
  }
}

void Queue::Reserve(int64_t more) {
  const size_t size = items_.size() + static_cast<size_t>(more);
  if (size > items_.capacity()) items_.reserve(std::max(size, 2 * items_.capacity()));
}

void Queue::Add(Element element) {
  bytes_ += BytesOf(element);
  items_.push_back({std::move(element), added_++});
  if (order_ == Order::kPriority) std::push_heap(items_.begin(), items_.end(), IsLater);
}

// The numbers of the settings and the state, the name, and then each component of each element.
std::vector<Tensor> Queue::Parts() const {
  const PhiloxSequence::State at = random_.state();
  std::vector<Tensor> parts;
  for (uint64_t number :
       {static_cast<uint64_t>(settings_.capacity), static_cast<uint64_t>(settings_.least_left),
        settings_.seed, settings_.seed2, uint64_t{closed_}, uint64_t{refuses_all_}, at.counter_lo,
        at.counter_hi, at.key, static_cast<uint64_t>(at.used)}) {
    parts.push_back(Tensor::Scalar(number));
  }
  parts.push_back(Tensor::StringScalar(settings_.name));
  // Of a priority queue they become those of one heap again by being added in order.
  std::vector<size_t> places(items_.size() - first_);
  std::iota(places.begin(), places.end(), first_);
  if (order_ == Order::kPriority) places = NextPlaces(size());
  for (size_t place : places) {
    const Element& element = items_[place].element;
    parts.insert(parts.end(), element.begin(), element.end());
  }
  return parts;
}

absl::StatusOr<std::shared_ptr<Queue>> Queue::OfParts(const ResourceType& type,
                                                      const std::vector<Tensor>& parts) {
  constexpr size_t kNumbers = 10;
  const size_t components = type.parts.size();
  if (parts.size() <= kNumbers || (parts.size() - kNumbers - 1) % components != 0 ||
      parts[kNumbers].dtype() != DType::kString || parts[kNumbers].rank() != 0) {
    return InvalidArgument("a queue has ", kNumbers, " numbers, a name, and whole elements");
  }
  uint64_t numbers[kNumbers];
  for (size_t i = 0; i < kNumbers; ++i) {
    if (parts[i].dtype() != DType::kUint64 || parts[i].rank() != 0) {
      return InvalidArgument("a queue's number ", i, " is not a scalar of uint64");
    }
    numbers[i] = parts[i].scalar<uint64_t>();
  }
  QueueSettings settings;
  settings.name = parts[kNumbers].scalar<std::string>();
  settings.capacity = static_cast<int64_t>(numbers[0]);
  settings.least_left = static_cast<int64_t>(numbers[1]);
  settings.seed = numbers[2];
  settings.seed2 = numbers[3];
  if (settings.capacity < 0 || settings.least_left < 0 || numbers[9] > 4) {
    return InvalidArgument("a queue's numbers are out of range");
  }
  auto queue = std::make_shared<Queue>(type, std::move(settings));
  queue->closed_ = numbers[4] != 0;
  queue->refuses_all_ = numbers[5] != 0;
  queue->random_ = PhiloxSequence(
      PhiloxSequence::State{numbers[6], numbers[7], numbers[8], static_cast<int>(numbers[9])});
  for (size_t i = kNumbers + 1; i < parts.size(); i += components) {
    const auto begin = parts.begin() + static_cast<ptrdiff_t>(i);
    Element element(begin, begin + static_cast<ptrdiff_t>(components));
    std::vector<const Tensor*> components_of;
    for (const Tensor& component : element) components_of.push_back(&component);
    FORMWORK_RETURN_IF_ERROR(CheckElement(type, components_of));
    queue->Reserve(1);
    queue->Add(std::move(element));
  }
  return queue;
}

namespace {

absl::StatusOr<std::vector<Tensor>> StoredParts(const ResourceType&, const Tensor& value,
                                                Allocator&) {
  return static_cast<const Queue&>(*value.scalar<Variant>()).Parts();
}

absl::StatusOr<ResourceValue> ValueOfParts(const ResourceType& type,
                                           const std::vector<Tensor>& parts) {
  FORMWORK_ASSIGN_OR_RETURN(std::shared_ptr<Queue> queue, Queue::OfParts(type, parts));
  const size_t bytes = queue->bytes();
  return ResourceValue{Tensor::VariantScalar(std::move(queue)), bytes};
}

}  // namespace

const StoredForm kStoredFifoQueue = {
    .kind = kFifoQueueKind, .parts = StoredParts, .value = ValueOfParts};
const StoredForm kStoredPaddingFifoQueue = {
    .kind = kPaddingFifoQueueKind, .parts = StoredParts, .value = ValueOfParts};
const StoredForm kStoredPriorityQueue = {
    .kind = kPriorityQueueKind, .parts = StoredParts, .value = ValueOfParts};
const StoredForm kStoredRandomShuffleQueue = {
    .kind = kRandomShuffleQueueKind, .parts = StoredParts, .value = ValueOfParts};

}  // namespace formwork
