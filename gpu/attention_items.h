#pragma once

// Attention on a GPU (attention_functions.h): which it does, and how its operands lie. Needs no
// CUDA itself.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/types/span.h"
#include "core/ops/attention.h"
#include "core/tensor/dtype.h"
#include "gpu/attention_functions.h"

namespace formwork {

/// Of half precision, as cuDNN has it: floats, masks, and sizes that are not known before a call
/// are left to products and a softmax.
bool GpuTakesAttention(const AttentionKind& kind);

/// Of `inputs` q, k and v, of which GpuTakesAttention, and of `geometry`, which PrepareAttention
/// made of them; its sizes are not 0.
formwork_element::AttentionCall AttentionCallOf(const AttentionAttrs& attrs,
                                                const AttentionGeometry& geometry,
                                                absl::Span<const absl::Span<const int64_t>> inputs);

/// As cuDNN is told of it: dimensions in the order [batch, heads, rows, columns], and how many
/// elements apart neighbours lie.
struct AttentionDescription {
  struct Operand {
    std::array<int64_t, 4> dims, strides;

    bool operator==(const Operand&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Operand& o) {
      return H::combine(std::move(h), o.dims, o.strides);
    }
  };
  Operand q, k, v, output;

  /// None where an operand's rows do not lie side by side, or where one has fewer batches or heads
  /// than others.
  static std::optional<AttentionDescription> Of(int64_t batch,
                                                const formwork_element::AttentionCall& call);

  bool operator==(const AttentionDescription&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const AttentionDescription& d) {
    return H::combine(std::move(h), d.q, d.k, d.v, d.output);
  }
};

/// "AttentionItem<half>", and the text of what it needs beside item_functions.h, for ItemSource
/// (item_source.h).
std::string AttentionItemName(DType dtype);
const std::string& AttentionText();

}  // namespace formwork
