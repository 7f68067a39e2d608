#pragma once

// A convolution and the depthwise one that alone reads it, as one step: band by band of rows, so
// that what is between them stays in the cache.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/kernels/kernel.h"

namespace formwork {

/// One of the two nodes, which are of floats.
struct ConvNode {
  std::string name;
  std::shared_ptr<const AttrMap> attrs;
  size_t num_inputs;
  KernelFn alone;  ///< For calls where bands do not pay.
};

/// Inputs: those of the convolution, then those of the depthwise one but its first. Errors name
/// their nodes.
absl::StatusOr<KernelFn> MakeConvDepthwise(ConvNode conv, ConvNode depthwise);

}  // namespace formwork
