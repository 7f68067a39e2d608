#include "gpu/attention_items.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "gpu/attention_functions_text.h"
#include "gpu/element_access_text.h"
#include "gpu/element_source.h"

namespace formwork {
namespace {

namespace element = formwork_element;

// cuDNN's kernels move 16 bytes at a time, and those of its older GPUs know no larger heads.
bool IsForCudnn(int64_t size) {
  return size > 0 && size % 8 == 0 && size <= element::kMostAttentionWidth;
}

element::AttentionLayout LayoutOf(absl::Span<const int64_t> dims, const AttentionDims& places,
                                  int64_t row, int64_t column) {
  const AttentionStrides strides = StridesOf(dims, places, row, column);
  // Heads are the last batch dimension.
  const size_t rank = strides.batch.size();
  return {rank > 1 ? strides.batch[0] : 0, rank > 0 ? strides.batch[rank - 1] : 0, strides.row,
          strides.column};
}

}  // namespace

bool GpuTakesAttention(const AttentionKind& kind) {
  return (kind.dtype == DType::kHalf || kind.dtype == DType::kBfloat16) && !kind.masked &&
         !kind.broadcasts && kind.batch_rank <= 2 && IsForCudnn(kind.depth) &&
         IsForCudnn(kind.width);
}

element::AttentionCall AttentionCallOf(const AttentionAttrs& attrs, const AttentionGeometry& g,
                                       absl::Span<const absl::Span<const int64_t>> inputs) {
  return {.heads = g.batch.empty() ? 1 : g.batch.back(),
          .queries = g.queries,
          .keys = g.keys,
          .depth = g.depth,
          .width = g.width,
          .scale = attrs.scale,
          .q = LayoutOf(inputs[0], attrs.q, attrs.q.queries, attrs.q.depth),
          .k = LayoutOf(inputs[1], attrs.k, attrs.k.keys, attrs.k.depth),
          .v = LayoutOf(inputs[2], attrs.v, attrs.v.keys, attrs.v.width),
          .out = LayoutOf(g.output, attrs.output, attrs.output.queries, attrs.output.width)};
}

std::optional<AttentionDescription> AttentionDescription::Of(int64_t batch,
                                                             const element::AttentionCall& call) {
  bool fits = true;
  const auto operand = [&](const element::AttentionLayout& lies, int64_t rows, int64_t columns) {
    Operand of{{batch, call.heads, rows, columns}, {lies.batch, lies.head, lies.row, lies.column}};
    fits = fits && lies.column == 1;
    for (size_t d = 4; d-- > 0;) {
      // A single one lies anywhere, but cuDNN wants to be told where.
      if (of.dims[d] == 1) of.strides[d] = d == 3 ? 1 : of.strides[d + 1] * of.dims[d + 1];
      fits = fits && of.strides[d] > 0;
    }
    return of;
  };
  const AttentionDescription description = {
      operand(call.q, call.queries, call.depth), operand(call.k, call.keys, call.depth),
      operand(call.v, call.keys, call.width), operand(call.out, call.queries, call.width)};
  if (!fits) return std::nullopt;
  return description;
}

std::string AttentionItemName(DType dtype) {
  return absl::StrCat("AttentionItem<", ElementTypeName(dtype), ">");
}

const std::string& AttentionText() {
  static const auto* const text =
      new std::string(absl::StrCat(kElementAccessText, kAttentionFunctionsText));
  return *text;
}

}  // namespace formwork
