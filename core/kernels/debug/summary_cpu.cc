// Summaries as TensorBoard reads them: numbers, histograms and values under their tags, as
// serialized messages.

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/debug/debug_cpu.h"
#include "core/kernels/serialized_tensor.h"
#include "core/kernels/wire_format.h"

namespace formwork {
namespace {

// Fields of Summary, of its values, and of their histograms.
constexpr uint32_t kValue = 1, kTag = 1, kSimpleValue = 2, kHistogram = 5, kNode = 7, kTensor = 8,
                   kMetadata = 9;
constexpr uint32_t kMin = 1, kMax = 2, kCount = 3, kSum = 4, kSquares = 5, kLimits = 6,
                   kBuckets = 7;

absl::StatusOr<double> NumberAt(const Tensor& tensor, int64_t i) {
  switch (tensor.dtype()) {
    FORMWORK_INTEGER_CASES(return static_cast<double>(tensor.data<T>()[i]))
    FORMWORK_CASE(float, return static_cast<double>(tensor.data<T>()[i]))
    FORMWORK_CASE(double, return tensor.data<T>()[i])
    FORMWORK_CASE(half, return static_cast<double>(static_cast<float>(tensor.data<T>()[i])))
    FORMWORK_CASE(bfloat16, return static_cast<double>(static_cast<float>(tensor.data<T>()[i])))
    default:
      return Unimplemented("summaries of dtype ", DTypeName(tensor.dtype()), " are not supported");
  }
}

// Messages say nothing of what is empty.
void AppendTag(const std::string& tag, std::string& value) {
  if (!tag.empty()) AppendBytes(kTag, tag, value);
}

absl::StatusOr<KernelFn> MakeScalarSummary(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor& tags = ctx.input(0);
    const Tensor& values = ctx.input(1);
    if (tags.shape() != values.shape()) {
      return InvalidArgument("tags and values are not the same shape: ", tags.shape().ToString(),
                             " != ", values.shape().ToString());
    }
    std::string summary;
    for (int64_t i = 0; i < tags.num_elements(); ++i) {
      if (WorkIsCutAt(i)) return WorkStatus();
      FORMWORK_ASSIGN_OR_RETURN(const double number, NumberAt(values, i));
      std::string value;
      AppendTag(tags.data<std::string>()[i], value);
      AppendFixed(kSimpleValue, static_cast<float>(number), value);
      AppendBytes(kValue, value, summary);
    }
    ctx.SetOutput(0, Tensor::StringScalar(std::move(summary)));
    return absl::OkStatus();
  });
}

// The ends of the buckets: each a tenth further from 0 than the one before, up to 1e20.
const std::vector<double>& BucketLimits() {
  static const auto* const limits = [] {
    std::vector<double> above;
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) above.push_back(limit);
    above.push_back(std::numeric_limits<double>::max());
    auto* all = new std::vector<double>;
    for (size_t i = above.size(); i-- > 0;) all->push_back(-above[i]);
    all->push_back(0);
    all->insert(all->end(), above.begin(), above.end());
    return all;
  }();
  return *limits;
}

std::string Packed(const std::vector<double>& numbers) {
  return std::string(reinterpret_cast<const char*>(numbers.data()),
                     numbers.size() * sizeof(double));
}

absl::StatusOr<std::string> HistogramOf(const Tensor& values, absl::string_view node) {
  const std::vector<double>& limits = BucketLimits();
  std::vector<double> counts(limits.size());
  double min = limits.back(), max = -limits.back(), sum = 0, squares = 0;
  for (int64_t i = 0; i < values.num_elements(); ++i) {
    if (WorkIsCutAt(i)) return WorkStatus();
    FORMWORK_ASSIGN_OR_RETURN(const double value, NumberAt(values, i));
    if (std::isnan(value)) return InvalidArgument("Nan in summary histogram for: ", node);
    if (std::isinf(value)) return InvalidArgument("Infinity in Histogram for: ", node);
    const auto bucket = std::upper_bound(limits.begin(), limits.end(), value) - limits.begin();
    counts[std::min(static_cast<size_t>(bucket), counts.size() - 1)] += 1;
    min = std::min(min, value);
    max = std::max(max, value);
    sum += value;
    squares += value * value;
  }
  // Of neighbours that are empty the last stands for all.
  std::vector<double> ends, buckets;
  for (size_t i = 0; i < counts.size();) {
    const bool empty = counts[i] == 0;
    while (empty && i + 1 < counts.size() && counts[i + 1] == 0) ++i;
    ends.push_back(limits[i]);
    buckets.push_back(counts[i]);
    ++i;
  }
  std::string histogram;
  const std::pair<uint32_t, double> numbers[] = {
      {kMin, min},
      {kMax, max},
      {kCount, static_cast<double>(values.num_elements())},
      {kSum, sum},
      {kSquares, squares}};
  for (const auto& [field, number] : numbers) {
    if (number != 0 || std::signbit(number)) AppendFixed(field, number, histogram);
  }
  AppendBytes(kLimits, Packed(ends), histogram);
  AppendBytes(kBuckets, Packed(buckets), histogram);
  return histogram;
}

absl::StatusOr<KernelFn> MakeHistogramSummary(KernelInit& init) {
  return KernelFn([node = std::string(init.node_name())](KernelContext& ctx) -> absl::Status {
    const Tensor& tag = ctx.input(0);
    if (tag.rank() != 0) return InvalidArgument("tags must be scalar");
    FORMWORK_ASSIGN_OR_RETURN(const std::string histogram, HistogramOf(ctx.input(1), node));
    std::string value, summary;
    AppendTag(tag.scalar<std::string>(), value);
    AppendBytes(kHistogram, histogram, value);
    AppendBytes(kValue, value, summary);
    ctx.SetOutput(0, Tensor::StringScalar(std::move(summary)));
    return absl::OkStatus();
  });
}

bool IsMessage(absl::string_view bytes) {
  WireField field;
  for (WireReader reader(bytes); !reader.done();) {
    if (!reader.Next(field)) return false;
  }
  return true;
}

absl::StatusOr<KernelFn> MakeTensorSummaryV2(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    const Tensor &tag = ctx.input(0), &metadata = ctx.input(2);
    if (tag.rank() != 0) return InvalidArgument("tag must be scalar");
    if (metadata.rank() != 0) return InvalidArgument("serialized_summary_metadata must be scalar");
    FORMWORK_ASSIGN_OR_RETURN(const std::string tensor,
                              SerializedTensor(ctx.input(1), StringsAs::kValues));
    const std::string& described = metadata.scalar<std::string>();
    std::string value, summary;
    AppendTag(tag.scalar<std::string>(), value);
    AppendBytes(kTensor, tensor, value);
    // What is none says nothing, as in TensorFlow.
    AppendBytes(kMetadata, IsMessage(described) ? described : "", value);
    AppendBytes(kValue, value, summary);
    ctx.SetOutput(0, Tensor::StringScalar(std::move(summary)));
    return absl::OkStatus();
  });
}

// The first version, which has the node's name for a tag and leaves its attrs out.
absl::StatusOr<KernelFn> MakeTensorSummary(KernelInit& init) {
  return KernelFn([node = std::string(init.node_name())](KernelContext& ctx) -> absl::Status {
    FORMWORK_ASSIGN_OR_RETURN(const std::string tensor,
                              SerializedTensor(ctx.input(0), StringsAs::kValues));
    std::string value, summary;
    AppendBytes(kNode, node, value);
    AppendBytes(kTensor, tensor, value);
    AppendBytes(kValue, value, summary);
    ctx.SetOutput(0, Tensor::StringScalar(std::move(summary)));
    return absl::OkStatus();
  });
}

// The values of summaries one after the other, each under a tag of its own.
absl::Status AppendValues(absl::string_view from, std::set<std::string>& tags,
                          std::string& merged) {
  WireField field;
  for (WireReader reader(from); !reader.done();) {
    if (!reader.Next(field)) return InvalidArgument("Could not parse one of the summary inputs");
    if (field.number != kValue || field.type != kBytes) continue;
    WireField part;
    for (WireReader value(field.bytes); !value.done();) {
      if (!value.Next(part)) return InvalidArgument("Could not parse one of the summary inputs");
      if (part.number != kTag || part.type != kBytes || part.bytes.empty()) continue;
      if (!tags.emplace(part.bytes).second) {
        return InvalidArgument("Duplicate tag ", part.bytes, " found in summary inputs ");
      }
    }
    AppendBytes(kValue, field.bytes, merged);
  }
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeMergeSummary(KernelInit&) {
  return KernelFn([](KernelContext& ctx) -> absl::Status {
    std::set<std::string> tags;
    std::string merged;
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      for (const std::string& summary : ctx.input(i).span<std::string>()) {
        if (WorkIsCut()) return WorkStatus();
        FORMWORK_RETURN_IF_ERROR(AppendValues(summary, tags, merged));
      }
    }
    ctx.SetOutput(0, Tensor::StringScalar(std::move(merged)));
    return absl::OkStatus();
  });
}

}  // namespace

void AddSummaryCpuKernels(KernelRegistry& registry) {
  registry.Add("ScalarSummary", MakeScalarSummary);
  registry.Add("HistogramSummary", MakeHistogramSummary);
  registry.Add("TensorSummary", MakeTensorSummary);
  registry.Add("TensorSummaryV2", MakeTensorSummaryV2);
  registry.Add("MergeSummary", MakeMergeSummary);
}

}  // namespace formwork
