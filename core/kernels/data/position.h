#pragma once

// Where an iterator is, so that another one of the same dataset can go on from there: what its
// stages have to say of themselves, in the order of the stages, as numbers and tensors.
//
// A stage says it once, for writing and for reading:
//
//   absl::Status Keep(Position& position) { return position.Keep(it, left, buffer); }
//
// It is read into a stage that has just begun. What is read may be damaged, so that whatever is
// used as an index is checked (KeepUpTo).

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "core/kernels/data/dataset.h"
#include "core/kernels/random/philox.h"

namespace formwork {

class Position {
 public:
  Position() = default;  ///< To be written. Tensors share their elements.
  /// To be read, within a call.
  Position(std::vector<int64_t> numbers, Element tensors, IterationContext& ctx)
      : numbers_(std::move(numbers)), tensors_(std::move(tensors)), ctx_(&ctx) {}

  bool reads() const { return ctx_ != nullptr; }
  IterationContext& ctx() { return *ctx_; }  ///< While it reads.

  /// Errors: kUnimplemented, while it is written, for what cannot be stored; kInvalidArgument,
  /// while it is read, if that does not fit.
  template <typename... Values>
  absl::Status Keep(Values&... values) {
    absl::Status status;
    (void)((status = One(values)).ok() && ...);
    return status;
  }
  /// A number that is to be 0 to `most` where it is read.
  template <typename Number>
  absl::Status KeepUpTo(uint64_t most, Number& number) {
    absl::Status status = One(number);
    if (status.ok() && reads() && static_cast<uint64_t>(number) > most) status = Unfit();
    return status;
  }
  /// An iterator that may not have begun, or be at its end: of `dataset`, which may be null then.
  absl::Status KeepBegun(Iterator& it, const Dataset* dataset);

  absl::Status Unfit() const;  ///< What is read does not fit.
  /// All has been read.
  bool done() const { return number_ == numbers_.size() && tensor_ == tensors_.size(); }

  // What has been written.
  const std::vector<int64_t>& numbers() const { return numbers_; }
  const Element& tensors() const { return tensors_; }

 private:
  absl::Status One(int64_t& number);
  absl::Status One(uint64_t& number);
  absl::Status One(int& number);
  absl::Status One(bool& flag);
  absl::Status One(Tensor& tensor);
  absl::Status One(Element& element);
  absl::Status One(Iterator& it);
  absl::Status One(PhiloxSequence& numbers);
  template <typename Stage>
  auto One(Stage& stage) -> decltype(stage.Keep(*this)) {
    return stage.Keep(*this);
  }
  template <typename Value>
  absl::Status One(std::vector<Value>& values) {
    return All(values);
  }
  template <typename Value>
  absl::Status One(std::deque<Value>& values) {
    return All(values);
  }
  template <typename Value>
  absl::Status One(std::map<int64_t, Value>& values) {
    uint64_t count = values.size();
    if (absl::Status status = Count(count); !status.ok()) return status;
    if (!reads()) {
      for (auto& [key, value] : values) {
        int64_t number = key;
        if (absl::Status status = Keep(number, value); !status.ok()) return status;
      }
      return absl::OkStatus();
    }
    values.clear();
    for (uint64_t i = 0; i < count; ++i) {
      int64_t key = 0;
      if (absl::Status status = One(key); !status.ok()) return status;
      if (absl::Status status = One(values[key]); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  template <typename Values>
  absl::Status All(Values& values) {
    uint64_t count = values.size();
    if (absl::Status status = Count(count); !status.ok()) return status;
    if (reads()) {
      values.clear();
      values.resize(count);
    }
    for (auto& value : values) {
      if (absl::Status status = One(value); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  // How many values follow: each has a number or a tensor at least.
  absl::Status Count(uint64_t& count);

  std::vector<int64_t> numbers_;
  Element tensors_;
  size_t number_ = 0, tensor_ = 0;  // What is read next.
  IterationContext* ctx_ = nullptr;
};

}  // namespace formwork
