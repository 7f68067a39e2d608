#pragma once

// Float convolutions by oneDNN: primitives are compiled once for each problem and kept in a bounded
// cache. Activations stay in TensorFlow's layout, filters are packed. README.md has the figures.

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ops/conv.h"
#include "core/ops/epilogue.h"

namespace formwork {

enum class ConvDirection { kForward, kInputGradient, kFilterGradient };

/// One compiled problem. Immutable: one may run on many threads at once, each with a scratch of its
/// own. A run stays on the calling thread.
class OnednnConv {
 public:
  /// From the cache, or compiled. `epilogue`: of kForward alone; its scale is not looked at.
  /// Errors: kUnimplemented if oneDNN has nothing for the problem (sizes beyond int32 among them).
  static absl::StatusOr<std::shared_ptr<const OnednnConv>> Get(const ConvShape& shape,
                                                               ConvDirection direction,
                                                               const Epilogue& epilogue = {});
  ~OnednnConv();

  size_t packed_filter_bytes() const;
  size_t scratch_bytes() const;
  /// True where both read (or write) a packed filter of the same form.
  bool SamePacking(const OnednnConv& other) const;

  /// Between TensorFlow's form of the filter and the packed one.
  absl::Status PackFilter(const float* filter, void* packed) const;
  absl::Status UnpackFilter(const void* packed, float* filter) const;

  // One of these, by direction. Pointers are aligned to 64 bytes, packed filters and scratch.
  /// `bias`: of the epilogue, else null. With a residual, that is what `output` holds before.
  absl::Status Forward(const float* input, const void* packed, const float* bias, float* output,
                       void* scratch) const;
  absl::Status InputGradient(const void* packed, const float* out_backprop, float* in_backprop,
                             void* scratch) const;
  absl::Status FilterGradient(const float* input, const float* out_backprop, void* packed,
                              void* scratch) const;

  struct Parts;
  explicit OnednnConv(std::unique_ptr<Parts> parts);  ///< For Get alone.

 private:
  std::unique_ptr<Parts> parts_;
};

/// Empties the cache. What somebody still runs stays until then.
void ForgetConvolutions();

}  // namespace formwork
