#include "core/kernels/data/position.h"

#include "core/base/status.h"

namespace formwork {

absl::Status Position::Unfit() const {
  return InvalidArgument("the position of an iterator does not fit its dataset");
}

absl::Status Position::One(int64_t& number) {
  if (!reads()) {
    numbers_.push_back(number);
    return absl::OkStatus();
  }
  if (number_ == numbers_.size()) return Unfit();
  number = numbers_[number_++];
  return absl::OkStatus();
}

absl::Status Position::One(uint64_t& number) {
  auto bits = static_cast<int64_t>(number);
  const absl::Status status = One(bits);
  number = static_cast<uint64_t>(bits);
  return status;
}

absl::Status Position::One(int& number) {
  int64_t wide = number;
  const absl::Status status = One(wide);
  number = static_cast<int>(wide);
  return status;
}

absl::Status Position::One(bool& flag) {
  int64_t number = flag ? 1 : 0;
  const absl::Status status = One(number);
  flag = number != 0;
  return status;
}

absl::Status Position::One(Tensor& tensor) {
  if (!reads()) {
    if (!IsPlainData(tensor.dtype()) && tensor.dtype() != DType::kString) {
      return Unimplemented("an element that is held has a ", DTypeName(tensor.dtype()));
    }
    tensors_.push_back(tensor);
    return absl::OkStatus();
  }
  if (tensor_ == tensors_.size()) return Unfit();
  tensor = tensors_[tensor_++];
  return absl::OkStatus();
}

absl::Status Position::One(Element& element) { return All(element); }

absl::Status Position::One(Iterator& it) { return it.Keep(*this); }

absl::Status Position::One(PhiloxSequence& numbers) {
  PhiloxSequence::State state = numbers.state();
  FORMWORK_RETURN_IF_ERROR(Keep(state.counter_lo, state.counter_hi, state.key));
  FORMWORK_RETURN_IF_ERROR(KeepUpTo(4, state.used));
  numbers = PhiloxSequence(state);
  return absl::OkStatus();
}

absl::Status Position::KeepBegun(Iterator& it, const Dataset* dataset) {
  bool open = !it.at_end();
  FORMWORK_RETURN_IF_ERROR(One(open));
  if (!open) {
    it = Iterator();
    return absl::OkStatus();
  }
  if (reads()) {
    if (dataset == nullptr) return Unfit();
    FORMWORK_ASSIGN_OR_RETURN(it, dataset->Begin(*ctx_));
  }
  return it.Keep(*this);
}

absl::Status Position::Count(uint64_t& count) {
  FORMWORK_RETURN_IF_ERROR(One(count));
  if (reads() && count > numbers_.size() + tensors_.size()) return Unfit();
  return absl::OkStatus();
}

}  // namespace formwork
