// Histograms of bins of one width.

#include "core/base/parallel.h"
#include "core/base/status.h"
#include "core/base/stop_flag.h"
#include "core/kernels/elements.h"
#include "core/kernels/image/image_cpu.h"
#include "core/ops/histogram.h"

namespace formwork {
namespace {

/// Values outside of the range count in the bin that is next to them, endless ones of an endless
/// range in the first: TensorFlow ends its process then. I: what the counts are. False for a NaN.
template <typename T, typename I>
bool CountBins(const T* values, int64_t n, double first, double last, int64_t bins, I* out) {
  const double width = (last - first) / static_cast<double>(bins);
  const auto last_bin = static_cast<double>(bins - 1);
  bool numbers = true;
  ForBlocks(n, kCheapItems, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto value = static_cast<double>(values[i]);
      numbers &= value == value;
      const double bin = ((value > first ? value : first) - first) / width;
      const bool known = bin == bin;
      ++out[known ? static_cast<int64_t>(bin < last_bin ? bin : last_bin) : 0];
    }
  });
  return numbers;
}

template <typename T>
absl::Status Histogram(KernelContext& ctx, DType dtype) {
  const Tensor values = ctx.input(0);
  const Tensor range = ctx.input(1);
  if (range.rank() != 1) return InvalidArgument("value_range should be a vector.");
  if (range.num_elements() != 2) {
    return InvalidArgument("value_range should be a vector of 2 elements.");
  }
  const T first = range.data<T>()[0];
  const T last = range.data<T>()[1];
  if (!(first < last)) {
    return InvalidArgument("value_range should satisfy value_range[0] < value_range[1], but got '[",
                           first, ", ", last, "]'");
  }
  FORMWORK_ASSIGN_OR_RETURN(const int64_t bins, PrepareHistogram(ctx.input(2)));
  FORMWORK_ASSIGN_OR_RETURN(const Shape shape, Shape::Make({bins}));
  FORMWORK_ASSIGN_OR_RETURN(Tensor * out, ctx.AllocateOutput(0, dtype, shape));
  ZeroElements(*out);
  const auto count = [&](auto* to) {
    return CountBins(values.data<T>(), values.num_elements(), static_cast<double>(first),
                     static_cast<double>(last), bins, to);
  };
  const bool numbers = dtype == DType::kInt64 ? count(out->mutable_data<int64_t>())
                                              : count(out->mutable_data<int32_t>());
  if (!numbers) return InvalidArgument("Histogram values must not contain NaN");
  return absl::OkStatus();
}

absl::StatusOr<KernelFn> MakeHistogram(KernelInit& init) {
  const DType dtype = init.output_dtypes()[0];
  return KernelFn([dtype](KernelContext& ctx) -> absl::Status {
    switch (ctx.input(0).dtype()) {
      FORMWORK_CASE(float, return Histogram<T>(ctx, dtype))
      FORMWORK_CASE(double, return Histogram<T>(ctx, dtype))
      FORMWORK_CASE(int32_t, return Histogram<T>(ctx, dtype))
      FORMWORK_CASE(int64_t, return Histogram<T>(ctx, dtype))
      default:
        return Unimplemented("HistogramFixedWidth: dtype ", DTypeName(ctx.input(0).dtype()),
                             " is not supported");
    }
  });
}

}  // namespace

void AddHistogramCpuKernels(KernelRegistry& registry) {
  registry.Add("HistogramFixedWidth", MakeHistogram);
}

}  // namespace formwork
