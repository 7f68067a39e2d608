#pragma once

// About how much an op has to do, for whoever decides what is worth a thread of its own.

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/tensor/shape.h"

namespace formwork {

/// Nanoseconds that one thread takes for `op`, within a factor of some: those of products and
/// convolutions by their multiplications, of all others by the elements that they read and write.
/// A dimension that is not known counts as one.
double EstimateWork(absl::string_view op, absl::Span<const PartialShape> inputs,
                    absl::Span<const PartialShape> outputs);

/// Whether it multiplies or factorizes matrices, or convolves: what a model's work mostly is.
bool IsProductOfMatrices(absl::string_view op);

}  // namespace formwork
