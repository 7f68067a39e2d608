#pragma once

// What a convolution or matrix product goes on to do to its result while it is in the cache.

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/ops/attr.h"

namespace formwork {

enum class Activation : uint8_t { kNone, kRelu, kRelu6, kGelu };

/// Of a node of Conv2D, DepthwiseConv2dNative, MatMul or BatchMatMulV2 of floats: the steps that
/// FuseEpilogues has moved into it, in their order. Vectors have an element for each channel, the
/// result's last dimension. Their operands are the node's inputs after those of its op, in this
/// order.
struct Epilogue {
  bool scale = false;     ///< Times a vector. Not of products.
  bool bias = false;      ///< Plus a vector.
  bool residual = false;  ///< Plus a tensor with as many elements as the result. Not of depthwise.
  Activation activation = Activation::kNone;

  bool empty() const { return *this == Epilogue(); }
  int num_operands() const { return scale + bias + residual; }
  bool operator==(const Epilogue&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const Epilogue& e) {
    return H::combine(std::move(h), e.scale, e.bias, e.residual, e.activation);
  }

  /// As attr _epilogue, which no client can set: the importer keeps declared attrs alone.
  void AddTo(AttrMap& attrs) const;
  /// Of a node without it: an empty one. `num_inputs`: the node's, of which the op has two.
  /// Errors: kInternal if they are not those of the epilogue.
  static absl::StatusOr<Epilogue> FromAttrs(const AttrMap& attrs, size_t num_inputs);
};

/// Attr _weights, of a product whose second operand is a constant, or a variable in a function that
/// changes none: the same in most calls. Set by FuseEpilogues.
bool ByWeights(const AttrMap& attrs);
void SetByWeights(AttrMap& attrs);

}  // namespace formwork
