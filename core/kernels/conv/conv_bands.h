#pragma once

// Convolutions that read each other alone, as one step: band by band of rows, so that what is
// between them stays in the cache.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/kernels/kernel.h"

namespace formwork {

/// One of the nodes, which are of floats.
struct ConvNode {
  std::string name;
  std::shared_ptr<const AttrMap> attrs;
  size_t num_inputs;
  KernelFn alone;  ///< For calls where bands do not pay.
};

/// Of a convolution, a depthwise one, and perhaps another convolution, which goes band by band
/// where it is of single pixels. Inputs: those of the first, then those of each next one but its
/// first. Errors name their nodes.
absl::StatusOr<KernelFn> MakeConvBands(std::vector<ConvNode> nodes);

}  // namespace formwork
