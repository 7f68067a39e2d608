#include "core/kernels/conv/conv_packed_filter.h"

#include <algorithm>
#include <cstring>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/gemm/panel_product.h"

namespace formwork {
namespace {

bool SameScale(const Tensor& kept, const Tensor* scale) {
  if (scale == nullptr) return !kept.has_value();
  return kept.has_value() && kept.bytes() == scale->bytes() &&
         std::memcmp(kept.raw(), scale->raw(), kept.bytes()) == 0;
}

// Of a filter in `form`, seen as rows x columns.
int64_t PackedBytes(const FilterForm& form, int64_t rows, int64_t columns) {
  if (form.conv != nullptr) return static_cast<int64_t>(form.conv->packed_filter_bytes());
  const int64_t floats = form.winograd != WinogradTiles::kNone
                             ? WinogradElements(form.winograd, rows / 9, columns)
                             : PanelElements(rows, columns);
  return floats * static_cast<int64_t>(sizeof(float));
}

}  // namespace

bool FilterForm::SameAs(const FilterForm& other) const {
  if (conv == nullptr || other.conv == nullptr) {
    return conv == other.conv && winograd == other.winograd;
  }
  return conv->SamePacking(*other.conv);
}

absl::StatusOr<Tensor> ScaledFilter(const Tensor& filter, const Tensor& scale,
                                    Allocator& allocator) {
  FORMWORK_ASSIGN_OR_RETURN(Tensor scaled,
                            Tensor::Allocate(allocator, DType::kFloat, filter.shape()));
  const int64_t channels = scale.num_elements();
  const float* from = filter.data<float>();
  const float* by = scale.data<float>();
  float* to = scaled.mutable_data<float>();
  const int64_t rows = filter.num_elements() / std::max<int64_t>(channels, 1);
  ParallelFor(rows, std::max<int64_t>(1, (1 << 16) / std::max<int64_t>(channels, 1)),
              [&](int64_t begin, int64_t end) {
                for (int64_t r = begin; r < end; ++r) {
                  for (int64_t c = 0; c < channels; ++c) {
                    to[r * channels + c] = from[r * channels + c] * by[c];
                  }
                }
              });
  return scaled;
}

absl::StatusOr<Tensor> PackFilter(const Tensor& filter, const Tensor* scale, const FilterForm& form,
                                  Allocator& allocator) {
  Tensor plain = filter;
  if (scale != nullptr) {
    FORMWORK_ASSIGN_OR_RETURN(plain, ScaledFilter(filter, *scale, allocator));
  }
  const int64_t columns = filter.shape().dim(filter.rank() - 1);
  const int64_t rows = filter.num_elements() / std::max<int64_t>(columns, 1);
  const int64_t bytes = PackedBytes(form, rows, columns);
  // Never inside the Tensor itself, which is not aligned as oneDNN wants it.
  FORMWORK_ASSIGN_OR_RETURN(Tensor packed, Tensor::Allocate(allocator, DType::kUint8,
                                                            Shape({std::max<int64_t>(bytes, 64)})));
  if (form.conv != nullptr) {
    FORMWORK_RETURN_IF_ERROR(form.conv->PackFilter(plain.raw(), packed.mutable_raw()));
    return packed;
  }
  const float* from = plain.data<float>();
  if (form.winograd != WinogradTiles::kNone) {
    WinogradFilter(form.winograd, rows / 9, columns, from,
                   static_cast<float*>(packed.mutable_raw()));
  } else {
    PackPanels(rows, columns, from, columns, 1, static_cast<float*>(packed.mutable_raw()));
  }
  return packed;
}

void PackedFilterMemo::Forget() {
  constexpr int64_t kMostCallsWanted = int64_t{1} << 20;
  kept_.reset();
  calls_in_a_row_ = 0;
  calls_wanted_ = std::min(2 * calls_wanted_, kMostCallsWanted);
}

void PackedFilterMemo::Discourage() {
  absl::MutexLock lock(&mutex_);
  Forget();
}

bool PackedFilterMemo::Settled(const Tensor& filter) {
  absl::MutexLock lock(&mutex_);
  const void* elements = filter.raw();
  if (kept_.has_value() && kept_->filter.raw() != elements) Forget();
  calls_in_a_row_ = last_ == elements ? calls_in_a_row_ + 1 : 1;
  last_ = elements;
  // A small filter lives inside its Tensor: packing it is nothing. One on a device is there for the
  // work alone that reads it.
  return calls_in_a_row_ >= calls_wanted_ && filter.buffer() && !filter.on_device();
}

absl::StatusOr<Tensor> PackedFilterMemo::Get(const Tensor& filter, const Tensor* scale, bool keep,
                                             const FilterForm& form, Allocator& allocator) {
  {
    absl::MutexLock lock(&mutex_);
    if (kept_.has_value() && kept_->filter.raw() == filter.raw() &&
        SameScale(kept_->scale, scale) && kept_->form.SameAs(form)) {
      return kept_->packed;
    }
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor packed, PackFilter(filter, scale, form, allocator));
  if (keep && WorkStatus().ok()) {
    absl::MutexLock lock(&mutex_);
    kept_.emplace(Kept{filter, scale == nullptr ? Tensor() : *scale, packed, form});
  }
  return packed;
}

}  // namespace formwork
