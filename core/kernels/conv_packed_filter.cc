#include "core/kernels/conv_packed_filter.h"

#include <algorithm>

#include "core/base/status.h"
#include "core/base/stop_flag.h"

namespace formwork {

absl::StatusOr<Tensor> PackFilter(const float* filter, const OnednnConv& conv,
                                  Allocator& allocator) {
  const int64_t bytes = static_cast<int64_t>(conv.packed_filter_bytes());
  // Never inside the Tensor itself, which is not aligned as oneDNN wants it.
  FORMWORK_ASSIGN_OR_RETURN(Tensor packed, Tensor::Allocate(allocator, DType::kUint8,
                                                            Shape({std::max<int64_t>(bytes, 64)})));
  FORMWORK_RETURN_IF_ERROR(conv.PackFilter(filter, packed.mutable_raw()));
  return packed;
}

absl::StatusOr<Tensor> PackedFilterMemo::Get(const Tensor& filter,
                                             const std::shared_ptr<const OnednnConv>& conv,
                                             Allocator& allocator) {
  constexpr int64_t kMostCallsWanted = int64_t{1} << 20;
  bool keep = false;
  {
    absl::MutexLock lock(&mutex_);
    const void* elements = filter.raw();
    if (filter_.has_value() && filter_.raw() == elements) {
      if (form_->SamePacking(*conv)) return packed_;
    } else if (filter_.has_value()) {
      filter_ = Tensor();
      packed_ = Tensor();
      form_ = nullptr;
      calls_wanted_ = std::min(2 * calls_wanted_, kMostCallsWanted);
    }
    calls_in_a_row_ = last_ == elements ? calls_in_a_row_ + 1 : 1;
    last_ = elements;
    // A small filter lives inside its Tensor: packing it is nothing.
    keep = calls_in_a_row_ >= calls_wanted_ && filter.buffer();
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor packed, PackFilter(filter.data<float>(), *conv, allocator));
  if (keep && WorkStatus().ok()) {
    absl::MutexLock lock(&mutex_);
    filter_ = filter;
    packed_ = packed;
    form_ = conv;
  }
  return packed;
}

}  // namespace formwork
