// Splitting strings, into sparse tensors; n-grams of those that are ragged.

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "core/base/checked_math.h"
#include "core/base/status.h"
#include "core/kernels/index_values.h"
#include "core/kernels/register_cpu_kernels.h"
#include "core/kernels/shape_tensor.h"
#include "core/kernels/string/string_cpu.h"
#include "core/kernels/string/text.h"
#include "core/ops/string.h"

namespace formwork {
namespace {

using Tokens = std::vector<absl::string_view>;

// At each byte that is one of `delimiters`; at every byte where there are none.
void SplitAtAny(absl::string_view text, absl::string_view delimiters, bool skip_empty,
                Tokens& tokens) {
  if (text.empty()) return;  // Not even one that is empty.
  if (delimiters.empty()) {
    for (size_t i = 0; i < text.size(); ++i) tokens.push_back(text.substr(i, 1));
    return;
  }
  while (true) {
    const size_t end = text.find_first_of(delimiters);
    const absl::string_view token = text.substr(0, end);
    if (!token.empty() || !skip_empty) tokens.push_back(token);
    if (end == absl::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

// At runs of white space, `most` times; then what is left is the last token.
void SplitAtSpace(absl::string_view text, int64_t most, Tokens& tokens) {
  int64_t splits = 0;
  text = absl::StripLeadingAsciiWhitespace(text);
  while (!text.empty()) {
    const auto* end = std::find_if(text.begin(), text.end(), [](char c) {
      return absl::ascii_isspace(static_cast<unsigned char>(c));
    });
    const size_t size = static_cast<size_t>(end - text.begin());
    tokens.push_back(text.substr(0, size));
    text = absl::StripLeadingAsciiWhitespace(text.substr(size));
    if (++splits == most) {
      tokens.push_back(text);
      return;
    }
  }
}

void SplitAt(absl::string_view text, absl::string_view separator, int64_t most, Tokens& tokens) {
  if (most == 0) return tokens.push_back(text);
  if (separator.empty()) return SplitAtSpace(text, most, tokens);
  for (int64_t splits = 0; splits != most; ++splits) {
    const size_t end = text.find(separator);
    if (end == absl::string_view::npos) break;
    tokens.push_back(text.substr(0, end));
    text.remove_prefix(end + separator.size());
  }
  tokens.push_back(text);
}

// Outputs the tokens that `split(text, tokens)` makes of each string of input 0.
template <typename Split>
absl::Status SplitAll(KernelContext& ctx, const Split& split) {
  const Tensor texts = ctx.input(0);
  const int64_t n = texts.num_elements();
  Tokens tokens;
  std::vector<int64_t> ends;
  TextLooks looks;
  int64_t longest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const std::string& text = texts.data<std::string>()[i];
    if (looks.CutBefore(text.size())) return WorkStatus();
    const size_t before = tokens.size();
    split(text, tokens);
    longest = std::max(longest, static_cast<int64_t>(tokens.size() - before));
    ends.push_back(static_cast<int64_t>(tokens.size()));
  }
  const int64_t count = static_cast<int64_t>(tokens.size());
  FORMWORK_ASSIGN_OR_RETURN(Tensor indices,
                            Tensor::Allocate(ctx.allocator(), DType::kInt64, Shape{count, 2}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor values,
                            Tensor::Allocate(ctx.allocator(), DType::kString, Shape{count}));
  int64_t* index = indices.mutable_data<int64_t>();
  std::string* to = values.mutable_data<std::string>();
  int64_t k = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t begin = k;
    for (; k < ends[static_cast<size_t>(i)]; ++k) {
      const absl::string_view token = tokens[static_cast<size_t>(k)];
      if (looks.CutBefore(token.size())) return WorkStatus();
      index[2 * k] = i;
      index[2 * k + 1] = k - begin;
      to[k].assign(token.data(), token.size());
    }
  }
  ctx.SetOutput(0, std::move(indices));
  ctx.SetOutput(1, std::move(values));
  return OutputIntegers(ctx, 2, DType::kInt64, {n, longest});
}

absl::StatusOr<KernelFn> MakeStringSplit(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const bool skip_empty, init.attrs().Get<bool>("skip_empty"));
  return KernelFn([skip_empty](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(
        CheckStringSplit(ctx.input(0).shape().dims(), "delimiter", ctx.input(1).shape().dims()));
    const std::string delimiters = ctx.input(1).scalar<std::string>();
    return SplitAll(ctx, [&](absl::string_view text, Tokens& tokens) {
      SplitAtAny(text, delimiters, skip_empty, tokens);
    });
  });
}

absl::StatusOr<KernelFn> MakeStringSplitV2(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(const int64_t most, init.attrs().Get<int64_t>("maxsplit"));
  return KernelFn([most](KernelContext& ctx) -> absl::Status {
    FORMWORK_RETURN_IF_ERROR(
        CheckStringSplit(ctx.input(0).shape().dims(), "sep", ctx.input(1).shape().dims()));
    const std::string separator = ctx.input(1).scalar<std::string>();
    return SplitAll(ctx, [&](absl::string_view text, Tokens& tokens) {
      SplitAt(text, separator, most, tokens);
    });
  });
}

// --- StringNGrams -------------------------------------------------------------------------------

// The pads on each side of a sequence, of which an n-gram takes up to width - 1.
int64_t PadWidth(const NGramsAttrs& attrs, int64_t width) {
  return attrs.pad_width < 0 ? width - 1 : std::min(attrs.pad_width, width - 1);
}

int64_t CountNGrams(const NGramsAttrs& attrs, int64_t length, int64_t width) {
  return std::max<int64_t>(0, length + 2 * PadWidth(attrs, width) - width + 1);
}

absl::Status CheckDataSplits(const IndexValues& splits, int64_t size) {
  if (splits.size() == 0) return absl::OkStatus();
  if (splits[0] != 0) return InvalidArgument("First split value must be 0, got ", splits[0]);
  for (int64_t i = 1; i < splits.size(); ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    if (splits[i] < splits[i - 1] || splits[i] > size) {
      return InvalidArgument("Invalid split value ", splits[i], ", must be in [", splits[i - 1],
                             ", ", size, "]");
    }
  }
  if (splits.back() == size) return absl::OkStatus();
  return InvalidArgument("Last split value must be data size. Expected ", size, ", got ",
                         splits.back());
}

// The n-gram that begins at `at` of a sequence with `pad` pads before and behind.
std::string NGram(const NGramsAttrs& attrs, absl::Span<const std::string> sequence, int64_t pad,
                  int64_t at, int64_t width) {
  std::string gram;
  const int64_t length = static_cast<int64_t>(sequence.size());
  for (int64_t i = at; i < at + width; ++i) {
    if (i > at) gram += attrs.separator;
    gram += i < pad ? attrs.left_pad
                    : (i < pad + length ? sequence[static_cast<size_t>(i - pad)] : attrs.right_pad);
  }
  return gram;
}

absl::Status NGrams(const NGramsAttrs& attrs, DType splits_dtype, KernelContext& ctx) {
  const Tensor data = ctx.input(0);
  const Tensor splits_in = ctx.input(1);
  const IndexValues splits(splits_in);
  FORMWORK_RETURN_IF_ERROR(WorkStatus());
  FORMWORK_RETURN_IF_ERROR(CheckDataSplits(splits, data.num_elements()));
  std::vector<int64_t> ends(static_cast<size_t>(splits.size()), 0);
  if (data.num_elements() == 0 || splits.size() == 0) {
    FORMWORK_ASSIGN_OR_RETURN(Tensor none,
                              Tensor::Allocate(ctx.allocator(), DType::kString, data.shape()));
    ctx.SetOutput(0, std::move(none));
    return OutputIntegers(ctx, 1, splits_dtype, ends);
  }
  const auto lone = [&](int64_t length, int64_t grams) {
    return attrs.preserve_short_sequences && length > 0 && grams == 0;
  };
  for (int64_t row = 1; row < splits.size(); ++row) {
    if (WorkIsCutAt(row, kDearItems)) return WorkStatus();
    const int64_t length = splits[row] - splits[row - 1];
    int64_t grams = 0;
    for (const int64_t width : attrs.ngram_widths) grams += CountNGrams(attrs, length, width);
    if (lone(length, grams)) {
      if (attrs.pad_width < 0) {
        return InvalidArgument(
            "Pad width should be >= 0 when preserve_short_sequences is True and ngram_widths are "
            "not provided, got ",
            attrs.pad_width);
      }
      grams = 1;
    }
    const std::optional<int64_t> end = CheckedAdd(ends[static_cast<size_t>(row) - 1], grams);
    const int64_t most = splits_dtype == DType::kInt32
                             ? int64_t{std::numeric_limits<int32_t>::max()}
                             : std::numeric_limits<int64_t>::max();
    if (!end || *end > most) return InvalidArgument("StringNGrams: too many n-grams");
    ends[static_cast<size_t>(row)] = *end;
  }
  FORMWORK_ASSIGN_OR_RETURN(Tensor grams,
                            Tensor::Allocate(ctx.allocator(), DType::kString, Shape{ends.back()}));
  std::string* to = grams.mutable_data<std::string>();
  TextLooks looks;
  int64_t total = 0;
  const auto write = [&](absl::Span<const std::string> sequence, int64_t pad, int64_t at,
                         int64_t width) -> absl::Status {
    // Before it is made: widths and pads are attrs, and may be large.
    const int64_t most_bytes = static_cast<int64_t>(
        std::max(attrs.separator.size(), std::max(attrs.left_pad.size(), attrs.right_pad.size())));
    FORMWORK_RETURN_IF_ERROR(CheckTextSize(std::min(width, kMaxTextBytes) * most_bytes));
    *to = NGram(attrs, sequence, pad, at, width);
    total += static_cast<int64_t>(to->size());
    FORMWORK_RETURN_IF_ERROR(CheckTextSize(total));
    if (looks.CutBefore(to->size())) return WorkStatus();
    ++to;
    return absl::OkStatus();
  };
  for (int64_t row = 0; row + 1 < splits.size(); ++row) {
    const int64_t length = splits[row + 1] - splits[row];
    const auto sequence = data.span<std::string>().subspan(static_cast<size_t>(splits[row]),
                                                           static_cast<size_t>(length));
    int64_t made = 0;
    for (const int64_t width : attrs.ngram_widths) {
      const int64_t count = CountNGrams(attrs, length, width);
      for (int64_t i = 0; i < count; ++i) {
        FORMWORK_RETURN_IF_ERROR(write(sequence, PadWidth(attrs, width), i, width));
      }
      made += count;
    }
    if (lone(length, made)) {
      const int64_t width = length + 2 * attrs.pad_width;
      FORMWORK_RETURN_IF_ERROR(write(sequence, PadWidth(attrs, width), 0, width));
    }
  }
  ctx.SetOutput(0, std::move(grams));
  return OutputIntegers(ctx, 1, splits_dtype, ends);
}

absl::StatusOr<KernelFn> MakeNGrams(KernelInit& init) {
  FORMWORK_ASSIGN_OR_RETURN(NGramsAttrs attrs, NGramsAttrs::FromAttrs(init.attrs()));
  const DType splits = init.input_dtypes()[1];
  return KernelFn([attrs = std::move(attrs), splits](KernelContext& ctx) {
    return NGrams(attrs, splits, ctx);
  });
}

}  // namespace

void AddStringSplitCpuKernels(KernelRegistry& registry) {
  registry.Add("StringSplit", MakeStringSplit);
  registry.Add("StringSplitV2", MakeStringSplitV2);
  registry.Add("StringNGrams", MakeNGrams);
}

}  // namespace formwork
