#pragma once

// Convolutions of float and bfloat16 by oneDNN: primitives are compiled once for each problem and
// kept in a bounded cache. Activations stay in TensorFlow's layout, filters are packed. README.md
// has the figures.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/ops/conv.h"
#include "core/ops/conv3d.h"
#include "core/ops/epilogue.h"
#include "core/tensor/dtype.h"

namespace formwork {

enum class ConvDirection { kForward, kInputGradient, kFilterGradient };

/// A convolution of images or of volumes: what oneDNN is told of it.
struct OnednnConvShape {
  OnednnConvShape(const ConvShape& shape, DType dtype);
  OnednnConvShape(const Conv3dShape& shape, DType dtype);

  DType dtype;  ///< kFloat or kBfloat16.
  int64_t batch;
  int64_t in_channels;
  int64_t out_channels;
  int64_t groups = 1;
  bool channels_first = false;
  int spatial;                       ///< 2 or 3, of which
  std::array<ConvAxis, 3> all_axes;  ///< so many are used, the outermost first.

  absl::Span<const ConvAxis> axes() const {
    return absl::MakeConstSpan(all_axes).first(static_cast<size_t>(spatial));
  }
  int64_t input_elements() const;
  int64_t output_elements() const;
  int64_t filter_elements() const;
  double work() const;  ///< Multiplications.

  bool operator==(const OnednnConvShape&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const OnednnConvShape& s) {
    return H::combine(std::move(h), s.dtype, s.batch, s.in_channels, s.out_channels, s.groups,
                      s.channels_first, s.spatial, s.all_axes);
  }
};

/// One compiled problem. Immutable: one may run on many threads at once, each with a scratch of its
/// own. A run stays on the calling thread.
class OnednnConv {
 public:
  /// From the cache, or compiled. `epilogue`: of kForward of floats alone; its scale is not looked
  /// at. Errors: kUnimplemented if oneDNN has nothing for the problem (sizes beyond int32 among
  /// them).
  static absl::StatusOr<std::shared_ptr<const OnednnConv>> Get(const OnednnConvShape& shape,
                                                               ConvDirection direction,
                                                               const Epilogue& epilogue = {});
  ~OnednnConv();

  size_t packed_filter_bytes() const;
  size_t scratch_bytes() const;
  /// True where both read (or write) a packed filter of the same form.
  bool SamePacking(const OnednnConv& other) const;

  /// From TensorFlow's form of the filter to the packed one; back, of kFilterGradient, which is
  /// float whatever the shape's dtype.
  absl::Status PackFilter(const void* filter, void* packed) const;
  absl::Status UnpackFilter(const void* packed, float* filter) const;

  // One of these, by direction. Elements are of the shape's dtype. Packed filters and scratch are
  // aligned to 64 bytes.
  /// `bias`: of the epilogue, else null. With a residual, that is what `output` holds before.
  absl::Status Forward(const void* input, const void* packed, const float* bias, void* output,
                       void* scratch) const;
  absl::Status InputGradient(const void* packed, const void* out_backprop, void* in_backprop,
                             void* scratch) const;
  absl::Status FilterGradient(const void* input, const void* out_backprop, void* packed,
                              void* scratch) const;

  struct Parts;
  explicit OnednnConv(std::unique_ptr<Parts> parts);  ///< For Get alone.

 private:
  std::unique_ptr<Parts> parts_;
};

/// Empties the cache. What somebody still runs stays until then.
void ForgetConvolutions();

}  // namespace formwork
