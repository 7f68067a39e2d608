#include "core/kernels/conv/channel_order.h"

#include <algorithm>

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/kernels/elements.h"

namespace formwork {
namespace {

template <typename E>
void SwapLoop(int64_t batch, int64_t a, int64_t b, const E* from, E* to) {
  constexpr int64_t kTile = 16;
  const int64_t stripes = (a + kTile - 1) / kTile;
  // Rows of tiles: a row of `a` read is a column written.
  ParallelFor(batch * stripes, std::max<int64_t>(1, 65536 / (kTile * std::max<int64_t>(b, 1))),
              [&](int64_t begin, int64_t end) {
                for (int64_t stripe = begin; stripe < end; ++stripe) {
                  const int64_t n = stripe / stripes;
                  const int64_t a0 = stripe % stripes * kTile;
                  const int64_t a1 = std::min(a0 + kTile, a);
                  const E* src = from + n * a * b;
                  E* dst = to + n * a * b;
                  for (int64_t b0 = 0; b0 < b; b0 += kTile) {
                    const int64_t b1 = std::min(b0 + kTile, b);
                    for (int64_t j = b0; j < b1; ++j) {
                      for (int64_t i = a0; i < a1; ++i) dst[j * a + i] = src[i * b + j];
                    }
                  }
                }
              });
}

}  // namespace

void SwapInnerAxes(int64_t batch, int64_t a, int64_t b, size_t element_bytes, const void* from,
                   void* to) {
  switch (element_bytes) {
    case 1:
      return SwapLoop(batch, a, b, static_cast<const Word1*>(from), static_cast<Word1*>(to));
    case 2:
      return SwapLoop(batch, a, b, static_cast<const Word2*>(from), static_cast<Word2*>(to));
    case 4:
      return SwapLoop(batch, a, b, static_cast<const Word4*>(from), static_cast<Word4*>(to));
    default:
      return SwapLoop(batch, a, b, static_cast<const Word8*>(from), static_cast<Word8*>(to));
  }
}

absl::StatusOr<Tensor> ToChannelsLast(const Tensor& image, Allocator& allocator) {
  const Shape& s = image.shape();
  FORMWORK_ASSIGN_OR_RETURN(
      Tensor last,
      Tensor::Allocate(allocator, image.dtype(), Shape({s.dim(0), s.dim(2), s.dim(3), s.dim(1)})));
  if (image.num_elements() == 0) return last;
  SwapInnerAxes(s.dim(0), s.dim(1), s.dim(2) * s.dim(3), DTypeSize(image.dtype()), image.raw(),
                last.mutable_raw());
  return last;
}

void ToChannelsFirst(const Tensor& channels_last, void* to) {
  const Shape& s = channels_last.shape();
  if (s.num_elements() == 0) return;
  SwapInnerAxes(s.dim(0), s.dim(1) * s.dim(2), s.dim(3), DTypeSize(channels_last.dtype()),
                channels_last.raw(), to);
}

}  // namespace formwork
